package operator

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/counters"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/gardener"
	"github.com/hap-worker/hap-worker/worker/config"
	"github.com/hap-worker/hap-worker/worker/reconcile"
)

// sources are all that Redis is held against, and Redis.
type sources struct {
	store    *counters.Store
	gardener *gardener.Client
	ledger   *events.Ledger
	room     *events.WaitingRoom
	subjects events.Subjects
	js       jetstream.JetStream
	redis    config.Redis // where store is
}

func (p *sources) audit(tell *progress) *reconcile.Audit {
	return &reconcile.Audit{
		Records: countedRedis{p.store, tell}, Repairer: p.store, Ledger: countedLedger{p.ledger, tell}, Inventory: countedGardener{p.gardener, tell},
		Reader: p.gardener, Room: p.room, Progress: tell.stage,
	}
}

// withSources connects to everything, for as long as run takes. Where Redis has to
// be built it is an error that it is not.
func (s *shell) withSources(ctx context.Context, timeout time.Duration, built bool, run func(context.Context, *sources) error) error {
	if timeout <= 0 {
		return usagef("--timeout is %s, must be positive", timeout)
	}
	cfg, err := s.connections.settings()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	p := &sources{redis: cfg.Redis}
	if p.store, err = openStore(ctx, s, cfg, built); err != nil {
		return err
	}
	client, tell, err := openGardener(ctx, s, cfg.Gardener)
	if err != nil {
		return err
	}
	defer tell()
	p.gardener = client
	nc, err := openNATS(ctx, s, cfg.NATS)
	if err != nil {
		return err
	}
	if err := p.streams(ctx, s, nc, cfg); err != nil {
		return err
	}
	return run(ctx, p)
}

func openStore(ctx context.Context, s *shell, cfg *config.Config, built bool) (*counters.Store, error) {
	if built {
		return openRedis(ctx, s, cfg)
	}
	store, _, err := reachRedis(ctx, s, cfg)
	return store, err
}

func (p *sources) streams(ctx context.Context, s *shell, nc *nats.Conn, cfg *config.Config) (err error) {
	if p.subjects, err = events.NewSubjects(cfg.NATS.Prefix); err != nil {
		return err
	}
	if p.ledger, err = openLedger(ctx, s, cfg, nc, p.subjects); err != nil {
		return err
	}
	p.js, err = jetstream.New(nc)
	p.room = events.NewWaitingRoom(p.js, p.subjects)
	return err
}
