package usage

import (
	"context"
	"errors"
	"io"
	"net/http"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// mostMetrics is the number of bytes of metrics that are read at most.
const mostMetrics = 64 << 20

// Metrics returns the metrics of the worker with that base URL, by name.
func Metrics(ctx context.Context, url string) (families map[string]*dto.MetricFamily, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(io.LimitReader(resp.Body, mostMetrics))
}
