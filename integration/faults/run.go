package faults

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/hap-worker/hap-worker/counters"
	"github.com/hap-worker/hap-worker/counters/connection"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/gardener"
	"github.com/hap-worker/hap-worker/gardener/clusterconfig"
	"github.com/hap-worker/hap-worker/integration/checker"
	"github.com/hap-worker/hap-worker/integration/faulty"
	"github.com/hap-worker/hap-worker/integration/stack"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

// Options configure a run.
type Options struct {
	Seed     uint64        // of the schedule and of the load
	Duration time.Duration // of the load
	Dir      string        // gets the workers' logs and the facts of the end; must exist
	Workers  int           // defaults to 3
	Gardener string        // how the Kubernetes API is served; defaults to stack.CRDGardener
	// Every is the time between two steps of the broker. Defaults to 70 ms.
	Every time.Duration
	// Settle is how long everything may take to settle after the last fault. Defaults to 3 min.
	Settle time.Duration
	// Soak makes faults rare, and reads the processes meanwhile: memory, goroutines, open files and Redis
	// keys must not grow.
	Soak bool
	// Log gets a line for each fault, and for what goes wrong in the run itself. Required.
	Log func(format string, args ...any)
}

// run is one run of a schedule.
type run struct {
	*Load

	ctx      context.Context
	o        Options
	stack    *stack.Stack
	kubeAPI  *faulty.KubeAPI
	redis    []*faulty.Redis // one for each worker
	looker   *faulty.Redis   // the checker's proxy, without faults
	master   *stack.Redis
	other    *stack.Redis // replaces the master at the next fail-over; nil until the first one
	another  *stack.Redis // the second server, which the stack does not stop
	injector *injector
	api      dynamic.Interface // directly, without the proxies

	workers   []sync.Mutex // held while a fault acts on the worker
	redisBy   sync.Mutex
	natsBy    sync.Mutex
	kubeBy    sync.Mutex
	streamsBy sync.Mutex
	configBy  sync.Mutex
	bindsBy   sync.Mutex
	starts    sync.RWMutex   // read-locked while a worker starts
	under     sync.WaitGroup // faults in progress
	skipped   int
	happened  map[Kind]int
	readings  []Reading // of a soak
}

// Run runs the schedule of a seed. The error means that the run itself failed; faults of the system are
// violations in the report.
func Run(ctx context.Context, o Options) (*Report, error) {
	if o.Workers == 0 {
		o.Workers = 3
	}
	ctx, cancel := context.WithCancel(ctx)
	r := &run{ctx: ctx, o: o, injector: newInjector(o.Seed), workers: make([]sync.Mutex, o.Workers), happened: map[Kind]int{}}
	defer func() {
		cancel()
		r.under.Wait()
		r.close()
	}()
	if err := r.start(ctx); err != nil {
		return nil, err
	}
	r.underFaults()
	r.heal()
	return r.conclude()
}

// start starts the stack, the proxies, and the workers behind them.
func (r *run) start(ctx context.Context) (err error) {
	r.stack, err = stack.Start(ctx, stack.Options{Gardener: cmp.Or(r.o.Gardener, stack.CRDGardener), Config: []byte(Config(25*time.Second) + networkConfig), Accounts: Accounts(), Redis: stack.RealRedis})
	if err != nil {
		return err
	}
	kube, err := r.stack.Kube.Config()
	if err != nil {
		return err
	}
	if r.kubeAPI, err = faulty.NewKubeAPI(kube); err != nil {
		return err
	}
	kubeconfig := filepath.Join(r.o.Dir, "faulty-kubeconfig")
	if err := r.kubeAPI.WriteKubeconfig(kubeconfig); err != nil {
		return err
	}
	r.master = r.stack.Redis
	if r.looker, err = faulty.NewRedis(r.master.Address()); err != nil {
		return err
	}
	if err := r.networks(ctx, kube); err != nil {
		return err
	}
	for n := range r.o.Workers {
		log, err := os.Create(r.logOf(n))
		if err != nil {
			return err
		}
		redis, err := faulty.NewRedis(r.master.Address())
		if err != nil {
			return err
		}
		r.redis = append(r.redis, redis)
		_, err = r.stack.AddWorker(ctx, log, "HAP_REDIS_URL="+redis.URL(), "HAP_GARDENER_KUBECONFIG="+kubeconfig)
		if err != nil {
			return err
		}
	}
	return r.newLoad(ctx, kube)
}

// newLoad connects the load directly to NATS and the Kubernetes API, and through the checker's proxy to Redis.
func (r *run) newLoad(ctx context.Context, kube *rest.Config) error {
	where := Landscape{Namespace: r.stack.Target.Namespace}
	var err error
	if where.Kube, err = dynamic.NewForConfig(kube); err != nil {
		return err
	}
	client, err := gardener.New(kube, gardener.Options{Namespace: where.Namespace})
	if err != nil {
		return err
	}
	configs, err := clusterconfig.New(kube, clusterconfig.Options{Changed: func(string) {}, Warn: func(text string) { r.o.Log("%s", text) }})
	if err != nil {
		return err
	}
	store, err := counters.Open(connection.Options{URLs: []string{r.looker.URL()}}, "")
	if err != nil {
		return err
	}
	nc, err := nats.Connect(r.stack.NATS.URL(), nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond))
	if err != nil {
		return errors.Join(err, store.Close())
	}
	if where.JetStream, err = jetstream.New(nc); err != nil {
		return err
	}
	subjects, err := events.NewSubjects("")
	if err != nil {
		return err
	}
	where.Sources = checker.Sources{Ledger: storage.NewLedger(where.JetStream, subjects, "/faults"), Counters: store, Gardener: client, Configs: configs}
	r.Load, err = newLoad(ctx, where, LoadOptions{Seed: r.o.Seed, Dir: r.o.Dir, Every: r.o.Every, Settle: r.o.Settle, Log: r.o.Log})
	return err
}

func (r *run) logOf(worker int) string {
	return filepath.Join(r.o.Dir, fmt.Sprintf("worker-%d.log", worker+1))
}

// close stops everything that start has started.
func (r *run) close() {
	if r.Load != nil {
		r.Close()
		r.js.Conn().Close()
		r.sources.Gardener.Stop()
		r.sources.Configs.Stop()
		_ = r.sources.Counters.Close()
	}
	if r.stack != nil {
		if err := r.stack.Stop(); err != nil {
			r.o.Log("stop the stack: %v", err)
		}
	}
	if r.kubeAPI != nil {
		r.kubeAPI.Close()
	}
	for _, redis := range r.redis {
		redis.Close()
	}
	if r.looker != nil {
		r.looker.Close()
	}
	if another := r.another; another != nil {
		if err := another.Stop(); err != nil {
			r.o.Log("stop Redis: %v", err)
		}
	}
}

// underFaults runs the load and the faults of the schedule, and adds a network rule after half of the time.
func (r *run) underFaults() {
	r.kubeAPI.Choose(r.injector.kubeFault)
	r.chooseRedis(r.injector.redisCut)
	r.begin()
	begin := time.Now()
	schedule := Plan
	if r.o.Soak {
		schedule = soakPlan
		sampling, enough := context.WithCancel(r.ctx)
		var reading sync.WaitGroup
		reading.Go(func() { r.sample(sampling) })
		defer func() { enough(); reading.Wait() }()
	}
	r.under.Go(func() {
		for _, a := range schedule(r.o.Seed, r.o.Duration, r.o.Workers) {
			if !pause(r.ctx, a.At-time.Since(begin)) {
				return
			}
			r.o.Log("%s", a)
			r.under.Go(func() { r.perform(a) })
		}
	})
	pause(r.ctx, r.o.Duration/2)
	r.must(r.configure(rulesThen))
	pause(r.ctx, r.o.Duration-time.Since(begin))
	r.rest()
	r.under.Wait()
}

// perform performs an action, unless an earlier one on the same part is still in progress.
func (r *run) perform(a Action) {
	var done bool
	switch a.Kind {
	case WorkerKilled, WorkerStopped, WorkerPaused:
		done = r.toWorker(a.Worker, a)
	case WorkersKilled:
		var all sync.WaitGroup
		for n := range r.o.Workers {
			all.Go(func() { r.toWorker(n, a) })
		}
		all.Wait()
		done = true
	case RedisLost, RedisRewound, RedisKilled, RedisFlaky, RedisFailedOver, RedisTwoMasters:
		done = r.toRedis(a)
	case NATSRestarted:
		done = r.toNATS(a)
	case KubeFlaky, KubeDown, WatchCut:
		done = r.toKube(a)
	case ConsumerDeleted, Junk, DeadPurged:
		done = r.toStreams(a)
	case ConfigChanged:
		done = r.toConfig(a)
	case BindingMoved, BindingDeleted:
		done = r.toBindings(a)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if done {
		r.happened[a.Kind]++
	} else {
		r.skipped++
	}
}

// ready is how long a worker may take to become ready after a restart, and all workers after heal.
const ready = 2 * time.Minute

func (r *run) toWorker(n int, a Action) bool {
	if !r.workers[n].TryLock() {
		return false
	}
	defer r.workers[n].Unlock()
	w := r.stack.Workers[n]
	switch a.Kind {
	case WorkerPaused:
		r.must(w.Signal(syscall.SIGSTOP))
		pause(r.ctx, a.For)
		r.must(w.Signal(syscall.SIGCONT))
		return true
	case WorkerStopped:
		r.must(w.Stop())
	default:
		w.Kill()
	}
	pause(r.ctx, a.For)
	r.starts.RLock()
	defer r.starts.RUnlock()
	ctx, cancel := context.WithTimeout(r.ctx, ready)
	defer cancel()
	r.must(w.Start(ctx))
	return true
}

func (r *run) toNATS(a Action) bool {
	if !r.natsBy.TryLock() {
		return false
	}
	defer r.natsBy.Unlock()
	r.must(r.stack.NATS.Stop())
	pause(r.ctx, a.For)
	r.must(r.stack.NATS.Start(r.ctx))
	return true
}

func (r *run) toKube(a Action) bool {
	if !r.kubeBy.TryLock() {
		return false
	}
	defer r.kubeBy.Unlock()
	switch a.Kind {
	case KubeFlaky:
		r.injector.setKube(kubeOften)
		pause(r.ctx, a.For)
		r.injector.setKube(kubeSometimes)
	case KubeDown:
		r.kubeAPI.Down()
		pause(r.ctx, a.For)
		r.must(r.kubeAPI.Up())
	default:
		r.kubeAPI.Down()
		r.must(r.kubeAPI.Up())
	}
	return true
}

// must records an error that no fault explains. After the end of the run, it ignores errors.
func (r *run) must(err error) {
	if err != nil && r.ctx.Err() == nil {
		r.failed(err.Error())
	}
}

// heal ends the faults of single requests, and waits until every worker is ready; one that is not is a violation.
func (r *run) heal() {
	r.o.Log("healed")
	r.kubeAPI.Choose(nil)
	r.chooseRedis(nil)
	r.injector.set(0, 0)
	ctx, cancel := context.WithTimeout(r.ctx, ready)
	defer cancel()
	for _, w := range r.stack.Workers {
		for !answers(ctx, w.URL()+"/readyz") {
			if !pause(ctx, 100*time.Millisecond) {
				r.failed("the worker at " + w.URL() + " is not ready, with everything healed")
				break
			}
		}
	}
}

func answers(ctx context.Context, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return false
	}
	client := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// crashes finds panics and data races in the logs of the workers.
func (r *run) crashes() (found []string) {
	for n := range r.o.Workers {
		content, err := os.ReadFile(r.logOf(n))
		if err != nil {
			found = append(found, err.Error())
		}
		for _, sign := range []string{"panic:", "fatal error:", "DATA RACE"} {
			if at := bytes.Index(content, []byte(sign)); at >= 0 {
				found = append(found, fmt.Sprintf("%s: %s", r.logOf(n), content[at:min(len(content), at+2000)]))
			}
		}
	}
	return found
}
