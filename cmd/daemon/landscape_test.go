package daemon

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/memory"
	"github.com/hap-worker/hap-worker/worker/memory/memorytest"
)

// refusing is a server of streams that refuses writes of metadata while it has errors left.
type refusing struct {
	*memory.Broker
	errs []error
}

func (r *refusing) SetMetadata(ctx context.Context, stream, key, value string) error {
	if len(r.errs) > 0 {
		err := r.errs[0]
		r.errs = r.errs[1:]
		return err
	}
	return r.Broker.SetMetadata(ctx, stream, key, value)
}

// TestLandscapeIsRecordedLater: a write that fails is warned of once and repeated by the next check.
func TestLandscapeIsRecordedLater(t *testing.T) {
	t.Parallel()
	broker, subjects := memorytest.Streams(t)
	streams := &refusing{broker, []error{errors.New("no leader"), errors.New("no leader")}}
	var log bytes.Buffer
	i := &identity{ledger: storage.NewLedgerOn(streams, subjects, "/hap-worker"), manage: true, log: slog.New(slog.NewTextHandler(&log, nil))}
	landscape := engine.Landscape{Cluster: "c-1", Namespace: "garden", Resource: "credentialsbindings"}
	for range 3 {
		i.name(t.Context(), landscape)
	}
	recorded, named, err := i.ledger.Landscape(t.Context())
	if err != nil || !named || !recorded.Knows(landscape) || strings.Count(log.String(), "could not record") != 1 {
		t.Errorf("recorded %+v, %t, %v; logged\n%s", recorded, named, err, &log)
	}
}
