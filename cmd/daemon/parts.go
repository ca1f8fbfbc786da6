package daemon

import (
	"context"
	"sync/atomic"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/hap-worker/hap-worker/counters"
	"github.com/hap-worker/hap-worker/counters/blocks"
	"github.com/hap-worker/hap-worker/engine/policy"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/streams"
	"github.com/hap-worker/hap-worker/gardener"
	"github.com/hap-worker/hap-worker/gardener/clusterconfig"
	"github.com/hap-worker/hap-worker/gardener/policyconfig"
	"github.com/hap-worker/hap-worker/ledger/shadows"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker"
	"github.com/hap-worker/hap-worker/worker/fence"
	"github.com/hap-worker/hap-worker/worker/notes"
	"github.com/hap-worker/hap-worker/worker/ranges"
	"github.com/hap-worker/hap-worker/worker/rebuild"
	"github.com/hap-worker/hap-worker/worker/reconcile"
	"github.com/hap-worker/hap-worker/worker/shadow"
	"github.com/hap-worker/hap-worker/worker/telemetry"
)

// The adapters implement the interfaces of the worker.
var (
	_ worker.Counters      = (*counters.Store)(nil)
	_ rebuild.Builder      = (*counters.Store)(nil)
	_ worker.Gardener      = (*gardener.Client)(nil)
	_ reconcile.Follower   = (*counters.Store)(nil)
	_ reconcile.Cache      = (*gardener.Client)(nil)
	_ rebuild.Inventory    = (*gardener.Client)(nil)
	_ rebuild.Ledger       = (*storage.Ledger)(nil)
	_ worker.Room          = (*storage.WaitingRoom)(nil)
	_ worker.Policies      = (*policy.Holder)(nil)
	_ ranges.Allocator     = (*blocks.Ranges)(nil)
	_ rebuild.RangeBuilder = (*blocks.Ranges)(nil)
	_ ranges.Keeper        = (*blocks.Ranges)(nil)
	_ ranges.Notes         = (*clusterconfig.Configs)(nil)
	_ notes.Writer         = (*gardener.Client)(nil)
)

// parts holds the connected parts.
type parts struct {
	nats     *nats.Conn
	js       jetstream.JetStream
	streams  streams.Streams // they count the messages that a full stream refuses
	consumer streams.Consumer
	subjects events.Subjects
	ledger   *storage.Ledger
	room     *storage.WaitingRoom
	counters *counters.Store
	gardener *gardener.Client
	options  gardener.Options
	policy   *policyconfig.Watch       // nil without a policy in a ConfigMap
	ipam     *clusterconfig.IPAMConfig // nil without network ranges, or if a file has their rules
	ranges   *blocks.Ranges            // nil without network ranges
	fence    *fence.Fence
	rebuild  *rebuild.Rebuilder
	extend   *ranges.Reconciler // nil without network ranges

	intake *shadows.Intake // only of a shadow
	notes  *notes.Notes    // nil without Events about bindings

	up struct{ nats, streams, redis, gardener, landscape part } // which of the above are connected, and whether their landscapes were compared

	gone   atomic.Pointer[string] // which streams are gone, nil for none
	worker atomic.Pointer[worker.Worker]
	sweep  atomic.Pointer[reconcile.Labels]
	follow atomic.Pointer[shadow.Follow] // only of a shadow
}

// ofWorker returns a check of the worker. It succeeds until the worker exists.
func (d *daemon) ofWorker(check func(*worker.Worker) error) func(context.Context) error {
	return func(context.Context) error {
		if w := d.parts.worker.Load(); w != nil {
			return check(w)
		}
		return nil
	}
}

// listen serves probes and metrics, and the page there or at its own address, until ctx ends.
func (d *daemon) listen(ctx context.Context) error {
	all, ctx := errgroup.WithContext(ctx)
	if d.ownPage() {
		all.Go(func() error { return d.listenPage(ctx) })
	}
	all.Go(func() error {
		return telemetry.Serve(ctx, telemetry.ServerOptions{
			Addr: d.cfg.Telemetry.Listen, Metrics: d.tel.Handler(), Ready: d.checks(), More: d.pages(), Log: d.log,
			Alive: []telemetry.Check{
				{Name: "handlers", Run: d.ofWorker((*worker.Worker).Stuck)},
				{Name: "consumer", Run: d.ofWorker((*worker.Worker).Deaf)},
			},
		}, func(addr string) {
			d.log.Info("listening", "addr", addr)
			if d.opts.OnListening != nil {
				d.opts.OnListening(addr)
			}
		})
	})
	return all.Wait()
}
