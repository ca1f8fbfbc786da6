package repair

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/engine"
)

// lossy is a ledger whose change fails.
type lossy struct {
	err     error
	applied bool  // the change took place all the same
	reading error // of the record, afterwards
	has     engine.Landscape
}

func (l *lossy) Landscape(context.Context) (engine.Landscape, bool, error) {
	return l.has, true, l.reading
}

func (l *lossy) SetLandscape(_ context.Context, own engine.Landscape) error {
	if l.applied {
		l.has = own
	}
	return l.err
}

// TestAdoptionFails: an adoption that fails says what was changed, and what is unknown.
func TestAdoptionFails(t *testing.T) {
	t.Parallel()
	own := engine.Landscape{Namespace: "garden-kyma", Resource: "credentialsbindings", Cluster: "c-1"}
	was := engine.Landscape{Namespace: "garden-old", Resource: "credentialsbindings", Cluster: "c-1"}
	lost := context.DeadlineExceeded
	for _, c := range []struct {
		name    string
		ledger  lossy
		redis   error
		changed []string // nil if nothing is printed
		want    string   // of the error
	}{
		{"refused", lossy{err: &jetstream.APIError{Code: 403}}, nil, nil, "nothing was changed"},
		{"no right", lossy{err: lost}, nil, nil, "nothing was changed"},
		{"the answer is lost", lossy{err: lost, applied: true}, nil, []string{"redis", "ledger"}, ""},
		{"the ledger is gone", lossy{err: lost, reading: lost}, nil, nil, "whether the ledger was changed is unknown"},
		{"Redis fails", lossy{applied: true}, errors.New("connection reset"), []string{"ledger"}, "the ledger was changed, Redis was not"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.ledger.has = was
			place := placeView{Recorded: true, Namespace: was.Namespace, Resource: was.Resource, Cluster: was.Cluster}
			redis, ledger := place, place
			redis.Place, ledger.Place = "redis", "ledger"
			b := &bearings{
				own: own, ledger: &c.ledger, view: landscapeView{Places: []placeView{{Place: "gardener"}, redis, ledger}},
				adoptRedis: func(context.Context, engine.Landscape) error { return c.redis },
			}
			var out, talk bytes.Buffer
			s := cli.New(strings.NewReader(""), &out, &talk)
			s.Format = cli.FormatJSON
			err := runAdopt(t.Context(), s, b, true, false)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("it ends with %v", err)
			}
			var v adoption
			if c.changed != nil {
				if err := json.Unmarshal(out.Bytes(), &v); err != nil {
					t.Fatalf("%v: the output is %q", err, out.String())
				}
			}
			if !slices.Equal(v.Changed, c.changed) || c.changed == nil && out.Len() > 0 {
				t.Errorf("the output is %s", out.String())
			}
		})
	}
}
