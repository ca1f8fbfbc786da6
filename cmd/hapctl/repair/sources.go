package repair

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/counters"
	"github.com/hap-worker/hap-worker/counters/landscapes"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/gardener"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/audit"
	"github.com/hap-worker/hap-worker/worker/config"
)

// redisIsEmptied reports whether Redis has neither pools nor a record of its landscape, while the ledger has
// a record: then Redis may be built for this landscape. If Redis has pools but no record, or
// if the ledger has no record either, it returns an error.
func redisIsEmptied(ctx context.Context, s *cli.Shell, p *sources) (bool, error) {
	unrecorded := s.Recorded(p.redis)
	if unrecorded == nil {
		return false, nil
	}
	_, named, err := p.ledger.Landscape(ctx)
	if err != nil {
		return false, err
	}
	pools, err := p.store.Pools(ctx)
	if err != nil {
		return false, err
	}
	if !named || len(pools) > 0 {
		return false, unrecorded
	}
	return true, nil
}

// claimRedis records the landscape in a Redis that was emptied, as the first worker does.
func claimRedis(ctx context.Context, s *cli.Shell, p *sources) error {
	l, err := cli.LandscapeOf(ctx, p.gardener)
	if err != nil {
		return err
	}
	have, err := landscapes.Claim(ctx, p.store, l)
	return s.RedisClaimed(p.redis, have, err)
}

// sources are Redis and the stores that it is compared with.
type sources struct {
	store    *counters.Store
	gardener *gardener.Client
	ledger   *storage.Ledger
	room     *storage.WaitingRoom
	subjects events.Subjects
	js       jetstream.JetStream
	redis    config.Redis // the configuration of store
}

func (p *sources) audit(tell *progress) *audit.Audit {
	return &audit.Audit{
		Records: countedRedis{p.store, tell}, Repairer: p.store, Ledger: countedLedger{p.ledger, tell}, Inventory: countedGardener{p.gardener, tell},
		Reader: p.gardener, Waiting: p.room.Addresses, Progress: tell.stage,
	}
}

// withSources connects to all stores and calls run. With built, it returns an error if Redis is not built.
func withSources(ctx context.Context, s *cli.Shell, timeout time.Duration, built bool, run func(context.Context, *sources) error) (err error) {
	if timeout <= 0 {
		return cli.Usagef("--timeout is %s, must be positive", timeout)
	}
	cfg, err := s.Connections.Settings()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer func() {
		err = cli.InTime(ctx, err)
		cancel()
	}()
	p := &sources{redis: cfg.Redis}
	if p.store, err = openStore(ctx, s, cfg, built); err != nil {
		return err
	}
	client, tell, err := cli.OpenGardener(ctx, s, cfg.Gardener)
	if err != nil {
		return err
	}
	defer tell()
	p.gardener = client
	nc, err := cli.OpenNATS(ctx, s, cfg.NATS)
	if err != nil {
		return err
	}
	if err := p.streams(ctx, s, nc, cfg); err != nil {
		return err
	}
	return run(ctx, p)
}

func openStore(ctx context.Context, s *cli.Shell, cfg *config.Config, built bool) (*counters.Store, error) {
	if built {
		return cli.OpenRedis(ctx, s, cfg)
	}
	store, _, err := cli.ReachRedis(ctx, s, cfg)
	return store, err
}

func (p *sources) streams(ctx context.Context, s *cli.Shell, nc *nats.Conn, cfg *config.Config) (err error) {
	if p.subjects, err = events.NewSubjects(cfg.NATS.Prefix); err != nil {
		return err
	}
	if p.ledger, err = cli.OpenLedger(ctx, s, cfg, nc, p.subjects); err != nil {
		return err
	}
	p.js, err = jetstream.New(nc)
	p.room = storage.NewWaitingRoom(p.js, p.subjects)
	return err
}
