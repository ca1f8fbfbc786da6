// Package stack starts the environment of hap-worker without containers, from real parts: NATS with
// JetStream, Redis, a Kubernetes API with the Gardener kinds and demo accounts, and the workers themselves.
// The program devstack runs it for developers, and tests run it:
//
//	s, err := stack.Start(ctx, stack.Options{})
//	…
//	defer s.Stop()
//	cfg, err := s.Kube.Config()
//
// A start takes about a second, and two to three with kube-apiserver, so the tests of a binary share one
// stack. Every part can be stopped and restarted at its address, and all but NATS can be killed.
package stack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// Options configure a stack. The zero value starts everything except workers, on free ports, with the demo
// accounts.
type Options struct {
	// Dir is the directory of data and configuration. It is kept, but LightGardener and MiniRedis have their data
	// in memory. Defaults to a temporary directory that Stop removes.
	Dir string
	// Config is the worker's configuration in YAML. The stack sets the addresses in it, and the initial rules
	// if it has no hap section. Defaults to none.
	Config []byte
	// Accounts get bindings. Defaults to DemoAccounts; an empty list, which is not nil, creates none.
	Accounts []Account
	// Workers is how many workers to start. Defaults to none.
	Workers int
	// WorkerCommand is the command of a worker, to which arguments are appended. A program that contains the
	// worker needs no build with it. Defaults to the hap-worker of this checkout, which the stack builds.
	WorkerCommand []string
	// Redis is RealRedis or MiniRedis. Defaults to redis-server if it is on PATH, otherwise miniredis.
	Redis string
	// Gardener is LightGardener, CRDGardener or RealGardener. Defaults to LightGardener. Kube takes
	// precedence.
	Gardener string
	// NATSPort, RedisPort and KubePort default to free ports.
	NATSPort, RedisPort, KubePort int
	// Kube is the Kubernetes API of another stack, for shared use: set a different gardener.namespace in each
	// stack. Stop does not stop it. Defaults to a new one.
	Kube *Kube
	// KubeArgs are further flags of kube-apiserver; not with LightGardener. Defaults to none.
	KubeArgs []string
	// GardenerArgs are further flags of gardener-apiserver; only with RealGardener. Defaults to none.
	GardenerArgs []string
	// Talk gets progress and later failures, a line each. Defaults to os.Stderr.
	Talk io.Writer
	// WorkerLog gets the output of the workers. Defaults to none; the error of a failed start quotes the end of
	// stderr.
	WorkerLog io.Writer
}

// startLimit is how long a start may take, without the builds.
const startLimit = 2 * time.Minute

// Stack is a running stack.
type Stack struct {
	NATS    *NATS
	Redis   *Redis
	Kube    *Kube
	Workers []*Worker
	Target  Target // namespace, kind and labels of the bindings
	Config  string // path of the file that the workers use

	dir       string
	worker    []string // the command of a worker; nil until it is built
	temporary bool
	guest     bool // Kube is another stack's
}

// Summary has the addresses that devstack prints.
type Summary struct {
	NATS       string   `json:"nats"`
	Redis      string   `json:"redis"`
	RedisKind  string   `json:"redisKind"`
	Kubeconfig string   `json:"kubeconfig"`
	Namespace  string   `json:"namespace"`
	Gardener   string   `json:"gardener"` // LightGardener, CRDGardener or RealGardener
	Resource   string   `json:"resource"`
	Config     string   `json:"config"`
	Workers    []string `json:"workers"`
	Ready      bool     `json:"ready"`
}

// Start starts a stack, and returns when everything is ready. ctx limits the start, not the stack. After an
// error, nothing is left running.
func Start(ctx context.Context, o Options) (*Stack, error) {
	if o.Talk == nil {
		o.Talk = os.Stderr
	}
	o.Talk = &lines{w: o.Talk}
	if o.Accounts == nil {
		o.Accounts = DemoAccounts()
	}
	if o.Gardener == "" {
		o.Gardener = LightGardener
	}
	s := &Stack{dir: o.Dir}
	if err := s.start(ctx, o); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// validate refuses contradictory options, before anything is started.
func (o *Options) validate() error {
	if !slices.Contains([]string{LightGardener, CRDGardener, RealGardener}, o.Gardener) {
		return fmt.Errorf("gardener %q is none of light, crd, real", o.Gardener)
	}
	if o.WorkerCommand != nil && len(o.WorkerCommand) == 0 {
		return errors.New("WorkerCommand names no program")
	}
	if o.Gardener == LightGardener && len(o.KubeArgs) > 0 {
		return errors.New("KubeArgs are flags of kube-apiserver: choose CRDGardener or RealGardener")
	}
	if o.Gardener != RealGardener && len(o.GardenerArgs) > 0 {
		return errors.New("GardenerArgs are flags of gardener-apiserver: choose RealGardener")
	}
	return nil
}

func (s *Stack) start(ctx context.Context, o Options) error {
	if err := o.validate(); err != nil {
		return err
	}
	config, err := readSettings(o.Config)
	if err != nil {
		return err
	}
	if s.Target, err = config.target(); err != nil {
		return err
	}
	if s.worker, err = builds(ctx, o); err != nil {
		return err
	}
	if err := s.makeDir(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, fmt.Errorf("the stack is not ready after %s", startLimit))
	defer cancel()
	if err := s.startParts(ctx, o); err != nil {
		return err
	}
	s.Config = filepath.Join(s.dir, "hap-worker.yaml")
	if err := config.connect(s.Config, s.NATS.URL(), s.Redis.URL(), s.Kube.Kubeconfig()); err != nil {
		return err
	}
	return s.startWorkers(ctx, o)
}

// builds compiles the programs that the stack needs, before startLimit begins.
func builds(ctx context.Context, o Options) (worker []string, err error) {
	group, ctx := errgroup.WithContext(ctx)
	worker = o.WorkerCommand
	if o.Workers > 0 && worker == nil {
		group.Go(func() error {
			binary, err := Build(ctx, "hap-worker", o.Talk)
			worker = []string{binary}
			return err
		})
	}
	if o.Gardener != LightGardener && os.Getenv("KUBEBUILDER_ASSETS") == "" && o.Kube == nil {
		group.Go(func() error {
			_, err := Build(ctx, "kubeapi", o.Talk)
			return err
		})
	}
	if o.Gardener == RealGardener && o.Kube == nil {
		group.Go(func() error {
			_, err := Build(ctx, "gardenerapi", o.Talk)
			return err
		})
	}
	err = group.Wait() // it sets worker
	return worker, err
}

func (s *Stack) makeDir() (err error) {
	if s.dir == "" {
		s.temporary = true
		s.dir, err = os.MkdirTemp("", "hap-stack-")
		return err
	}
	if s.dir, err = filepath.Abs(s.dir); err != nil {
		return err
	}
	return os.MkdirAll(s.dir, 0o700)
}

func (s *Stack) startParts(ctx context.Context, o Options) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		s.NATS, err = startNATS(ctx, filepath.Join(s.dir, "nats"), o.NATSPort)
		return err
	})
	group.Go(func() (err error) {
		s.Redis, err = startRedis(ctx, filepath.Join(s.dir, "redis"), o)
		return err
	})
	group.Go(func() (err error) {
		if s.Kube, s.guest = o.Kube, o.Kube != nil; !s.guest {
			if s.Kube, err = startKube(ctx, filepath.Join(s.dir, "kube"), s.Target.Namespace, o); err != nil {
				return err
			}
		}
		s.Target.Gardener = s.Kube.Gardener()
		cfg, err := s.Kube.Config()
		if err != nil {
			return err
		}
		return Seed(ctx, cfg, s.Target, o.Accounts)
	})
	return group.Wait()
}

func (s *Stack) startWorkers(ctx context.Context, o Options) error {
	group, ctx := errgroup.WithContext(ctx)
	for i := range o.Workers {
		port, err := FreePort()
		if err != nil {
			return errors.Join(err, group.Wait())
		}
		w := &Worker{number: i + 1, command: s.worker, config: s.Config, port: port, log: o.WorkerLog, talk: o.Talk}
		s.Workers = append(s.Workers, w)
		group.Go(func() error { return w.Start(ctx) })
	}
	return group.Wait()
}

// Summary returns the addresses of the parts.
func (s *Stack) Summary() Summary {
	sum := Summary{
		NATS: s.NATS.URL(), Redis: s.Redis.URL(), RedisKind: s.Redis.Kind(),
		Kubeconfig: s.Kube.Kubeconfig(), Namespace: s.Target.Namespace, Gardener: s.Kube.Kind(), Resource: s.Target.Resource,
		Config: s.Config, Workers: []string{}, Ready: true,
	}
	for _, w := range s.Workers {
		sum.Workers = append(sum.Workers, w.URL())
	}
	return sum
}

// Stop stops everything but a Kube of another stack, the workers first, and removes a temporary directory. It may be
// called twice.
func (s *Stack) Stop() error {
	var group errgroup.Group
	for _, w := range s.Workers {
		group.Go(w.Stop)
	}
	errs := []error{group.Wait()}
	if s.Kube != nil && !s.guest {
		group.Go(s.Kube.Stop)
	}
	if s.Redis != nil {
		group.Go(s.Redis.Stop)
	}
	if s.NATS != nil {
		group.Go(s.NATS.Stop)
	}
	errs = append(errs, group.Wait())
	if s.temporary {
		errs = append(errs, os.RemoveAll(s.dir))
	}
	return errors.Join(errs...)
}

// lines serializes the writes of several parts.
type lines struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}
