package daemon

import (
	"context"
	"sync/atomic"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/counters"
	"github.com/hap-worker/hap-worker/engine/policy"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/gardener"
	"github.com/hap-worker/hap-worker/worker"
	"github.com/hap-worker/hap-worker/worker/shadow"
	"github.com/hap-worker/hap-worker/worker/telemetry"
)

// The adapters fit what the worker asks for.
var (
	_ worker.Counters     = (*counters.Store)(nil)
	_ worker.Builder      = (*counters.Store)(nil)
	_ worker.Landscape    = (*gardener.Client)(nil)
	_ worker.Follower     = (*counters.Store)(nil)
	_ worker.Cache        = (*gardener.Client)(nil)
	_ worker.Census       = (*gardener.Client)(nil)
	_ worker.Archive      = (*events.Ledger)(nil)
	_ worker.Room         = (*events.WaitingRoom)(nil)
	_ worker.Copier       = (*events.Ledger)(nil)
	_ worker.Morgue       = (*events.DeadLetters)(nil)
	_ worker.Policies     = (*policy.Holder)(nil)
	_ worker.Ranges       = (*counters.Ranges)(nil)
	_ worker.RangeBuilder = (*counters.Ranges)(nil)
	_ worker.RangeKeeper  = (*counters.Ranges)(nil)
	_ worker.ClusterNotes = (*gardener.ClusterConfigs)(nil)
	_ worker.Lodgings     = (*counters.Store)(nil)
)

// parts are what is connected.
type parts struct {
	nats     *nats.Conn
	js       jetstream.JetStream
	consumer jetstream.Consumer
	subjects events.Subjects
	ledger   *events.Ledger
	room     *events.WaitingRoom
	counters *counters.Store
	gardener *gardener.Client
	options  gardener.Options
	policy   *gardener.PolicyConfig // nil without a policy in a ConfigMap
	ipam     *gardener.IPAMConfig   // nil without network ranges, or with a file of them
	ranges   *counters.Ranges       // nil without network ranges
	rebuild  *worker.Rebuild
	extend   *worker.Extend // nil without network ranges

	intake *events.Intake // of a shadow

	up struct{ nats, streams, redis, gardener part } // which of the above are set

	worker atomic.Pointer[worker.Worker]
	sweep  atomic.Pointer[worker.Sweep]
	follow atomic.Pointer[shadow.Follow] // of a shadow
}

func (d *daemon) listen(ctx context.Context) error {
	return telemetry.Serve(ctx, telemetry.ServerOptions{
		Addr: d.cfg.Telemetry.Listen, Metrics: d.tel.Handler(), Ready: d.checks(), More: d.pages(),
		Alive: []telemetry.Check{{Name: "handlers", Run: func(context.Context) error {
			if w := d.parts.worker.Load(); w != nil {
				return w.Stuck()
			}
			return nil
		}}},
	}, func(addr string) {
		d.log.Info("listening", "addr", addr)
		if d.opts.OnListening != nil {
			d.opts.OnListening(addr)
		}
	})
}
