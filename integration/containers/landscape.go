package containers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/client-go/dynamic"

	"github.com/hap-worker/hap-worker/counters"
	"github.com/hap-worker/hap-worker/counters/connection"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/requests"
	"github.com/hap-worker/hap-worker/gardener"
	"github.com/hap-worker/hap-worker/integration/checker"
	"github.com/hap-worker/hap-worker/integration/faults"
	"github.com/hap-worker/hap-worker/integration/stack"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

// workers is the number of workers in a landscape.
const workers = 2

// Landscape is a namespace with its own accounts, streams and counters, and two
// workers, on the parts of a System.
type Landscape struct {
	Workers []*Worker
	Client  *requests.Client
	Sources checker.Sources

	system    *System
	name      string
	redis     RedisPlace
	target    stack.Target
	config    []byte
	jetStream jetstream.JetStream
	kube      dynamic.Interface
}

// LandscapeOptions configure a Landscape.
type LandscapeOptions struct {
	Redis    RedisPlace
	Config   string            // of the workers, without addresses
	Resource gardener.Resource // the kind of the accounts. Defaults to gardener.CredentialsBindings.
	Accounts []stack.Account
}

// NewLandscape creates the accounts, starts the workers, and returns when they are ready. After an error, no worker is
// left running.
func (s *System) NewLandscape(ctx context.Context, o LandscapeOptions) (*Landscape, error) {
	l := &Landscape{system: s, redis: o.Redis, config: []byte(o.Config)}
	l.target.Resource = string(cmp.Or(o.Resource, gardener.CredentialsBindings))
	if err := l.start(ctx, o.Accounts); err != nil {
		return nil, errors.Join(err, l.Stop(context.WithoutCancel(ctx)))
	}
	return l, nil
}

func (l *Landscape) start(ctx context.Context, bindings []stack.Account) error {
	n := int(l.system.taken.Add(1)) - 1
	if n >= accounts {
		return fmt.Errorf("there are NATS accounts for %d landscapes only", accounts)
	}
	l.name = accountName(n)
	l.target.Namespace, l.target.Gardener = "garden-"+l.name, l.system.Kube.aggregated()
	if err := l.connect(); err != nil {
		return err
	}
	kube, err := l.system.Kube.config()
	if err != nil {
		return err
	}
	if err := stack.Seed(ctx, kube, l.target, bindings); err != nil {
		return err
	}
	for number := range workers {
		w, err := l.newWorker(ctx, number+1)
		l.Workers = append(l.Workers, w)
		if err != nil {
			return err
		}
	}
	return l.AwaitReady(ctx)
}

// connect opens the connections of publisher and checker.
func (l *Landscape) connect() error {
	nc, err := l.system.NATS.connect(l.name)
	if err != nil {
		return err
	}
	if l.jetStream, err = jetstream.New(nc); err != nil {
		return err
	}
	if l.Client, err = requests.NewClient(nc, requests.ClientOptions{Source: "/containers"}); err != nil {
		return err
	}
	subjects, err := events.NewSubjects("")
	if err != nil {
		return err
	}
	l.Sources.Ledger = storage.NewLedger(l.jetStream, subjects, "/containers")
	l.Sources.Counters, err = counters.Open(connection.Options{
		URLs: strings.Split(l.redis.outside, ","), Cluster: l.redis.cluster, SentinelMaster: l.redis.master,
	}, l.name)
	if err != nil {
		return err
	}
	kube, err := l.system.Kube.config()
	if err != nil {
		return err
	}
	if l.kube, err = dynamic.NewForConfig(kube); err != nil {
		return err
	}
	l.Sources.Gardener, err = gardener.New(kube, gardener.Options{Namespace: l.target.Namespace, Resource: l.resource()})
	return err
}

func (l *Landscape) resource() gardener.Resource { return gardener.Resource(l.target.Resource) }

// AwaitReady returns when every worker is ready.
func (l *Landscape) AwaitReady(ctx context.Context) error {
	for n, w := range l.Workers {
		if err := w.AwaitReady(ctx); err != nil {
			return fmt.Errorf("worker %d is not ready: %w", n+1, err)
		}
	}
	return nil
}

// Replicated returns when every stream has three replicas, all of them current.
func (l *Landscape) Replicated(ctx context.Context) error {
	for _, stream := range []string{events.StreamEvents, events.StreamReplies, events.StreamWaiting, events.StreamDead} {
		if err := until(ctx, func(ctx context.Context) error { return current(ctx, l.jetStream, stream) }); err != nil {
			return err
		}
	}
	return nil
}

// Leader returns the index of the NATS server that leads a stream, 0 to 2.
func (l *Landscape) Leader(ctx context.Context, stream string) (node int, err error) {
	err = until(ctx, func(ctx context.Context) (err error) {
		node, err = leader(ctx, l.jetStream, stream)
		return err
	})
	return node, err
}

// Facts reads the present facts for the checker.
func (l *Landscape) Facts(ctx context.Context) (checker.Facts, error) {
	return checker.Read(ctx, l.Sources)
}

// StartLoad starts a broker and a cleanup job. The landscape must have faults.Config and faults.Accounts.
func (l *Landscape) StartLoad(ctx context.Context, o faults.LoadOptions) (*faults.Load, error) {
	return faults.StartLoad(ctx, faults.Landscape{
		JetStream: l.jetStream, Kube: l.kube, Namespace: l.target.Namespace, Resource: l.resource(), Sources: l.Sources,
	}, o)
}

// Stop removes the workers, and closes the connections. It leaves the accounts.
func (l *Landscape) Stop(ctx context.Context) error {
	var errs []error
	for _, w := range l.Workers {
		errs = append(errs, w.container.remove(ctx))
	}
	if l.Sources.Gardener != nil {
		l.Sources.Gardener.Stop()
	}
	if l.Sources.Counters != nil {
		errs = append(errs, l.Sources.Counters.Close())
	}
	if l.Client != nil {
		l.Client.Close()
	}
	if l.jetStream != nil {
		l.jetStream.Conn().Close()
	}
	return errors.Join(errs...)
}
