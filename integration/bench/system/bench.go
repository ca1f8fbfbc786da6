package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/integration/bench/publishing"
	"github.com/hap-worker/hap-worker/integration/stack"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

const (
	// tenants is the number of tenants in the steady state. Each has an account from the start.
	tenants = 50
	// roundLimit is the time limit of one measurement in a round. Growth and fairness have twice as long.
	roundLimit = 5 * time.Minute
)

// config is the initial rules: a tenant has at most one account in each dedicated pool.
const config = stack.InitialRules

// bench is a stack, the worker that open adds, and the loops that workers are compared with.
type bench struct {
	settings
	stack   *stack.Stack
	worker  *stack.Worker
	loops   []running
	dir     string
	publish *publisher
	nc      *nats.Conn
	round   int
}

// open starts a stack with a worker that has assigned every tenant its account.
func open(ctx context.Context, s settings, o stack.Options) (b *bench, err error) {
	b = &bench{settings: s}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.stop())
		}
	}()
	o.Config, o.Accounts, o.Talk = []byte(config), b.accounts(), os.Stderr
	if b.stack, err = stack.Start(ctx, o); err != nil {
		return b, err
	}
	if err := b.connect(); err != nil {
		return b, err
	}
	if b.worker, err = b.stack.AddWorker(ctx, os.Stderr, "HAP_TELEMETRY_LOGLEVEL=error"); err != nil {
		return b, err
	}
	return b, b.warmUp(ctx)
}

// start opens a stack, and starts the loops that its worker is compared with.
func start(ctx context.Context, s settings) (*bench, error) {
	b, err := open(ctx, s, stack.Options{Gardener: stack.CRDGardener})
	if err != nil {
		return nil, err
	}
	for _, a := range []anchor{bareAnchor, tunedAnchor} {
		if err := b.startLoops(ctx, a, 1); err != nil {
			return nil, errors.Join(err, b.stop())
		}
	}
	return b, nil
}

// connect creates the publisher.
func (b *bench) connect() (err error) {
	b.nc, b.publish, err = b.publisher()
	return err
}

// publisher returns a publisher with its connection.
func (b *bench) publisher() (*nats.Conn, *publisher, error) {
	nc, err := nats.Connect(b.stack.NATS.URL())
	if err != nil {
		return nil, nil, err
	}
	js, err := publishing.New(nc, publishAhead)
	if err != nil {
		return nc, nil, err
	}
	subjects, err := events.NewSubjects("")
	return nc, &publisher{js: js, subjects: subjects}, err
}

// accounts returns the accounts of the steady state's tenants, and one for each claim if claims are measured.
func (b *bench) accounts() []stack.Account {
	var all []stack.Account
	for n := range tenants {
		all = append(all, stack.Account{Name: fmt.Sprintf("aws-%d", n), HyperscalerType: "aws"})
	}
	if b.wants("claims") {
		for n := range b.claims * b.rounds {
			all = append(all, stack.Account{Name: fmt.Sprintf("azure-%d", n), HyperscalerType: "azure"})
		}
	}
	return all
}

// warmUp assigns every tenant its account.
func (b *bench) warmUp(ctx context.Context) error {
	var batch []event
	for n := range tenants {
		e, err := b.publish.provision(fmt.Sprintf("warm-%d", n), fmt.Sprintf("ga-%d", n))
		if err != nil {
			return err
		}
		batch = append(batch, e)
	}
	_, err := b.publish.answered(ctx, events.StreamReplies, batch)
	return err
}

// running is a running process of an anchor.
type running struct {
	anchor anchor
	*exec.Cmd
}

// startLoops starts processes of an anchor. Its streams are like the worker's. Its reply is the last one of the ledger,
// so that it is as long as the worker's.
func (b *bench) startLoops(ctx context.Context, a anchor, processes int) error {
	streams, err := storage.Options{}.Streams()
	if err != nil {
		return err
	}
	requests, replies := streams[0], streams[1]
	requests.Name, requests.Subjects = a.events(), []string{a.subject("*")}
	replies.Name, replies.Subjects = a.replies(), []string{a.reply("*")}
	for _, c := range []jetstream.StreamConfig{requests, replies} {
		if _, err := b.publish.js.CreateStream(ctx, c); err != nil {
			return err
		}
	}
	consumer := storage.Options{}.Consumer()
	consumer.Durable = a.word
	if _, err := b.publish.js.CreateConsumer(ctx, a.events(), consumer); err != nil {
		return err
	}
	ledger, err := b.publish.js.Stream(ctx, events.StreamReplies)
	if err != nil {
		return err
	}
	reply, err := ledger.GetMsg(ctx, ledger.CachedInfo().State.LastSeq)
	if err != nil {
		return err
	}
	for range processes {
		if err := b.addLoop(a, reply.Data); err != nil {
			return fmt.Errorf("the %s does not begin: %w", a.name, err)
		}
	}
	return nil
}

func (b *bench) addLoop(a anchor, reply []byte) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	process := exec.Command(self, loopCommand, a.word, b.stack.NATS.URL(), b.stack.Redis.URL())
	process.Stdin, process.Stderr = bytes.NewReader(reply), os.Stderr
	out, err := process.StdoutPipe()
	if err != nil {
		return err
	}
	if err := process.Start(); err != nil {
		return err
	}
	b.loops = append(b.loops, running{a, process})
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		return err
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return nil
}

// loopPID returns the id of an anchor's first process, 0 if none runs.
func (b *bench) loopPID(a anchor) int {
	for _, l := range b.loops {
		if l.anchor.word == a.word {
			return l.Process.Pid
		}
	}
	return 0
}

func (b *bench) stop() error {
	var errs []error
	for _, l := range b.loops {
		errs = append(errs, l.Process.Signal(syscall.SIGTERM), l.Wait())
	}
	if b.nc != nil {
		b.nc.Close()
	}
	if b.stack != nil {
		errs = append(errs, b.stack.Stop())
	}
	return errors.Join(append(errs, os.RemoveAll(b.dir))...)
}
