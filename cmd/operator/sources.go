package operator

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/counters"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/gardener"
	"github.com/hap-worker/hap-worker/worker"
	"github.com/hap-worker/hap-worker/worker/config"
)

// sources are all that Redis is held against, and Redis.
type sources struct {
	store    *counters.Store
	gardener *gardener.Client
	ledger   *events.Ledger
	room     *events.WaitingRoom
	subjects events.Subjects
}

func (p *sources) audit(tell *progress) *worker.Audit {
	return &worker.Audit{
		Book: countedRedis{p.store, tell}, Mender: p.store, Archive: countedLedger{p.ledger, tell}, Census: countedGardener{p.gardener, tell},
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
	p := &sources{}
	if p.store, err = openStore(ctx, cfg.Redis, built); err != nil {
		return err
	}
	defer func() { _ = p.store.Close() }()
	client, tell, err := openGardener(s, cfg.Gardener)
	if err != nil {
		return err
	}
	defer tell()
	p.gardener = client
	nc, err := openNATS(ctx, cfg.NATS)
	if err != nil {
		return err
	}
	defer nc.Close()
	if err := p.streams(ctx, nc, cfg.NATS); err != nil {
		return err
	}
	return run(ctx, p)
}

func openStore(ctx context.Context, c config.Redis, built bool) (*counters.Store, error) {
	if built {
		return openRedis(ctx, c)
	}
	store, _, err := reachRedis(ctx, c)
	return store, err
}

func (p *sources) streams(ctx context.Context, nc *nats.Conn, c config.NATS) (err error) {
	if p.subjects, err = events.NewSubjects(c.Prefix); err != nil {
		return err
	}
	if p.ledger, err = openLedger(ctx, c, nc, p.subjects); err != nil {
		return err
	}
	js, err := jetstream.New(nc)
	p.room = events.NewWaitingRoom(js, p.subjects)
	return err
}
