// Package daemon is the program hap-worker without its main function: it reads
// the configuration, connects, and runs a worker until its context ends.
package daemon

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/cmd/connect"
	"github.com/hap-worker/hap-worker/counters/connection"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/policy"
	"github.com/hap-worker/hap-worker/engine/terms"
	"github.com/hap-worker/hap-worker/gardener"
	"github.com/hap-worker/hap-worker/ledger/dead"
	"github.com/hap-worker/hap-worker/worker"
	"github.com/hap-worker/hap-worker/worker/config"
	"github.com/hap-worker/hap-worker/worker/fence"
	"github.com/hap-worker/hap-worker/worker/loop"
	"github.com/hap-worker/hap-worker/worker/observe"
	"github.com/hap-worker/hap-worker/worker/page"
	"github.com/hap-worker/hap-worker/worker/rebuild"
	"github.com/hap-worker/hap-worker/worker/retention"
	"github.com/hap-worker/hap-worker/worker/telemetry"
)

// The exit codes of hap-worker.
const (
	ExitDone          = 0
	ExitFailure       = 1
	ExitUsage         = 2
	ExitInvalidConfig = 3
)

// Options are the settings of a run of the daemon.
type Options struct {
	ConfigPath string   // "" if there are only defaults and environment
	Env        []string // defaults to os.Environ()
	Log        io.Writer
	Version    string

	// Process says that no other run shares the process. Libraries that log to a global
	// logger then log to the log of this run.
	Process bool

	// OnStep is called at every step (observe.Step) of events and rebuilds; tests stop the process there.
	OnStep func(observe.Step)
	// Retention, if set, is called with the purger before it runs, and may change its times: tests cannot
	// wait for hours until released runtimes are forgotten.
	Retention func(*retention.Purger)
	// OnListening is called with the address of the listener of probes and metrics.
	OnListening func(addr string)
}

// Run runs a worker until ctx ends, and then drains it. If the configuration is invalid, the error is a
// document.Faults. If Redis or the streams belong to another landscape, it is an *engine.ForeignError.
func Run(ctx context.Context, o Options) error {
	if o.Env == nil {
		o.Env = os.Environ()
	}
	cfg, err := config.Load(o.ConfigPath, o.Env)
	if err != nil {
		return err
	}
	level := new(slog.LevelVar)
	log, err := logger(o.Log, cfg, level)
	if err != nil {
		return err
	}
	if o.Process {
		logLibraries(log)
	}
	for _, warning := range slices.Concat(cfg.Warnings(), cfg.PlainConnections()) {
		log.Warn(warning)
	}
	tel, err := telemetry.New(ctx, telemetryOptions(cfg, o.Version))
	if err != nil {
		return err
	}
	defer func() {
		flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
		defer cancel()
		if err := tel.Shutdown(flush); err != nil {
			log.Warn("could not send all telemetry", "error", err)
		}
	}()
	decisions, err := cfg.Decisions()
	if err != nil {
		return err
	}
	d := &daemon{opts: o, cfg: cfg, log: log, level: level, tel: tel, rules: terms.NewLive(decisions), recent: page.NewRecent(), policyChanged: make(chan struct{}, 1)}
	d.reconcile.Store(&cfg.Worker.Reconcile)
	return d.run(ctx)
}

func logger(w io.Writer, cfg *config.Config, level *slog.LevelVar) (*slog.Logger, error) {
	if w == nil {
		w = os.Stderr
	}
	l, err := telemetry.ParseLevel(cfg.Telemetry.LogLevel)
	if err != nil {
		return nil, err
	}
	level.Set(l)
	return telemetry.NewLogger(w, cfg.Telemetry.LogFormat, level)
}

func telemetryOptions(cfg *config.Config, version string) telemetry.Options {
	t := cfg.Telemetry
	return telemetry.Options{
		Version: version, Instance: instance(), Shadow: cfg.Worker.Mode == config.ModeShadow,
		Endpoint: t.OTLP.Endpoint, Insecure: t.OTLP.Insecure, Headers: t.OTLP.Headers,
		TraceRatio: t.TraceRatio, TenantLabel: t.TenantLabel, TenantMetrics: t.TenantMetrics,
	}
}

// daemon is a run with its parts.
type daemon struct {
	opts  Options
	cfg   *config.Config
	log   *slog.Logger
	level *slog.LevelVar
	tel   *telemetry.Telemetry
	rules *terms.Live
	parts parts

	fail     context.CancelCauseFunc // ends the run with an error
	identity *identity               // set by openLandscape

	page   *page.Page // nil if it is switched off
	recent *page.Recent

	policies      policy.Holder
	policyChanged chan struct{} // capacity 1
	networks      networks

	reconcile atomic.Pointer[config.Reconcile] // present configuration

	running sync.WaitGroup // all goroutines that end with the background context
}

func (d *daemon) run(ctx context.Context) error {
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	working, fail := context.WithCancelCause(ctx)
	d.fail = fail
	d.page = d.newPage(background)
	d.running.Go(func() {
		if err := d.listen(background); err != nil {
			fail(err)
		}
	})
	defer func() {
		stop()
		d.running.Wait()
		fail(nil)
		d.close()
	}()
	err := d.work(working, background)
	switch {
	case working.Err() == nil:
		return err
	case err != nil:
		d.log.Info("stopped before everything was connected", "reason", err)
	}
	if ctx.Err() == nil {
		return context.Cause(working)
	}
	return nil
}

// work runs the worker until ctx ends, and then drains it. It returns an error if the worker cannot start.
func (d *daemon) work(ctx, background context.Context) error {
	obeyLimit()
	collectByUse()
	d.log.Info("starting", "version", d.opts.Version, "rules", d.rules.Get().Rules().Len())
	d.tel.Metrics.Consuming(func() error { return errStarting }) // hap_consumer_up is 0 until the worker takes events
	if err := d.open(ctx, background); err != nil {
		return err
	}
	if err := d.openPolicy(ctx, background); err != nil {
		return err
	}
	d.running.Go(func() { d.watchConfig(background) })
	d.running.Go(func() { giveBack(background) })
	w := worker.New(d.workerOptions())
	d.tel.Metrics.InFlight(w.InFlight)
	d.tel.Metrics.Load(w.Load)
	d.tel.Metrics.Consuming(w.Consuming)
	d.parts.worker.Store(w)
	if err := w.Start(background); err != nil {
		return err
	}
	d.goOn(background, w)
	d.log.Info("ready", "mode", d.cfg.Worker.Mode, "concurrency", d.cfg.Worker.Concurrency, "namespace", d.parts.options.Namespace, "resource", d.parts.options.Resource)
	<-ctx.Done()
	d.log.Info("draining", "inFlight", w.InFlight(), "atMost", d.cfg.Worker.Drain)
	w.Stop()
	d.log.Info("stopped")
	return nil
}

// retry repeats do until it succeeds, returns a permanent error, or ctx ends: other parts of the
// system may still be starting.
func (d *daemon) retry(ctx context.Context, p *part, what string, do func() error) error {
	return loop.Retry(ctx, loop.Backoff{First: 100 * time.Millisecond, Most: 5 * time.Second}, do, func(err error, after time.Duration) {
		p.failed(err.Error())
		d.log.Warn(what+" failed; trying again", "error", err, "after", after.Round(time.Millisecond))
	})
}

// open connects all parts but the policy, each after the parts that it needs, and has Redis built.
func (d *daemon) open(ctx, background context.Context) error {
	var err error
	p := &d.parts
	if p.nats, err = connect.NATS(ctx, d.cfg.NATS, "hap-worker", d.warns(&p.up.nats)); err != nil {
		return err
	}
	p.up.nats.up.Store(true)
	if p.js, err = jetstream.New(p.nats); err != nil {
		return err
	}
	redis, err := d.separate()
	if err != nil {
		return err
	}
	if err := d.openStreams(ctx); err != nil {
		return err
	}
	d.tel.Metrics.RedisBuilt(false)
	if p.counters, err = connect.Redis(redis); err != nil {
		return err
	}
	p.counters.OnCall(d.tel.Metrics.Redis)
	p.fence = fence.New(p.ledger, d.observer())
	p.counters.Fence(p.fence.Look)
	if err := d.retry(ctx, &p.up.redis, "checking Redis", func() error { return d.checkRedis(ctx) }); err != nil {
		return err
	}
	p.up.redis.up.Store(true)
	if err := d.openGardener(ctx, background); err != nil {
		return err
	}
	if err := d.openLandscape(ctx); err != nil {
		return err
	}
	p.rebuild = &rebuild.Rebuilder{
		Builder: p.counters, Inventory: p.gardener, Ledger: p.ledger, Waiting: p.room.Addresses, Subjects: p.subjects, Observer: d.observer(),
		Belongs: d.identity.check, Record: p.ledger, Reconnect: p.counters.Reconnect,
	}
	if err := d.openNetwork(ctx, background); err != nil {
		return err
	}
	d.running.Go(func() { p.rebuild.Run(background) })
	if err := d.firstBuild(ctx); err != nil {
		return err
	}
	d.tel.Metrics.RedisBuilt(true)
	d.warnUnserved()
	d.running.Go(func() { d.observe(background) })
	d.running.Go(func() { d.identity.watch(background) })
	d.running.Go(func() { d.watchStreams(background) })
	d.showLandscape(background)
	return nil
}

// openGardener starts to watch the bindings, and waits until all of them have been read.
func (d *daemon) openGardener(ctx, background context.Context) (err error) {
	p := &d.parts
	if p.gardener, p.options, err = connect.Gardener(d.cfg.Gardener, "", d.warns(&p.up.gardener)); err != nil {
		return err
	}
	p.notes = d.newNotes(background)
	p.gardener.OnChange(func(b engine.Binding, deleted bool) {
		if p.notes != nil {
			p.notes.Changed(b, deleted)
		}
		if sweep := p.sweep.Load(); sweep != nil {
			sweep.Changed(b, deleted)
		}
		if follow := p.follow.Load(); follow != nil {
			follow.Changed()
		}
	})
	if err := p.gardener.Start(background); err != nil {
		return err
	}
	if err := p.gardener.WaitSynced(ctx); err != nil {
		return err
	}
	p.up.gardener.up.Store(true)
	return nil
}

// warns returns a function that logs a warning of a part. The readiness check shows the last one
// until the part is connected.
func (d *daemon) warns(p *part) func(string) {
	return func(text string) {
		p.failed(text)
		d.log.Warn(text)
	}
}

// checkRedis rejects a server that may evict keys, and warns about one that may lose data.
func (d *daemon) checkRedis(ctx context.Context) error {
	warnings, err := d.parts.counters.Connect(ctx)
	if errors.Is(err, connection.ErrEvicts) {
		return loop.Permanent(err) // waiting does not help
	}
	if err != nil {
		return err
	}
	for _, warning := range warnings {
		d.log.Warn(warning)
	}
	return nil
}

func (d *daemon) workerOptions() worker.Options {
	w, p := d.cfg.Worker, &d.parts
	kind := "CredentialsBinding"
	switch gardener.Resource(d.cfg.Gardener.Resource) {
	case gardener.SecretBindings:
		kind = "SecretBinding"
	case gardener.Secrets:
		kind = "Secret"
	case gardener.CredentialsBindings:
	}
	o := worker.Options{
		Consumer: p.consumer, Reopen: d.setup, Subjects: p.subjects, Ledger: p.ledger, Copies: p.ledger,
		Dead: dead.NewLettersOn(p.streams, p.subjects), Room: p.room, Counters: p.counters, Gardener: p.gardener,
		Rebuild: p.rebuild, Rules: d.rules, Policies: &d.policies, Observer: d.observer(), Tracer: d.tel.Tracer, Ranges: d.allotter(),
		Namespace: p.options.Namespace, Kind: kind,
		Concurrency: w.Concurrency, MaxAckPending: d.cfg.NATS.MaxAckPending, AckWait: w.AckWait, Budget: w.Budget, Drain: w.Drain,
	}
	return d.asShadow(o)
}
