package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"
	"k8s.io/client-go/rest"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/integration/bench/publishing"
	"github.com/hap-worker/hap-worker/integration/stack"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

// bench is a stack, a publisher, and the answers so far.
type bench struct {
	settings

	stack    *stack.Stack
	kube     *rest.Config
	nc       *nats.Conn
	js       *publishing.Publisher
	redis    *redis.Client
	subjects events.Subjects

	made     int // requests
	accounts int
	filled   int // requests that fill has published

	mu       sync.Mutex
	waiting  int                  // number of replies with the status waiting
	answered map[string]time.Time // by subject and status, or by account and status
	served   map[string]bool      // tenants that have an account
	arrived  chan struct{}        // closed with the next answer
}

// publishAhead is how many published requests may be without the stream's acknowledgement.
const publishAhead = 256

func open(ctx context.Context, s settings) (_ *bench, err error) {
	b := &bench{settings: s, answered: map[string]time.Time{}, served: map[string]bool{}, arrived: make(chan struct{})}
	config := strings.Replace(stack.InitialRules, "- aws\n", "- aws -> PR\n", 1) + "\n  waiting: {timeout: 24h}\n"
	b.stack, err = stack.Start(ctx, stack.Options{Gardener: stack.LightGardener, Config: []byte(config), Accounts: b.owned(), Talk: os.Stderr})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.stop())
		}
	}()
	if b.kube, err = b.stack.Kube.Config(); err != nil {
		return nil, err
	}
	options, err := redis.ParseURL(b.stack.Redis.URL())
	if err != nil {
		return nil, err
	}
	b.redis = redis.NewClient(options)
	if err := b.connect(ctx); err != nil {
		return nil, err
	}
	for range s.workers {
		if _, err := b.stack.AddWorker(ctx, os.Stderr, "HAP_TELEMETRY_LOGLEVEL=error"); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// owned returns an account in each pool, of a tenant that makes no requests.
func (b *bench) owned() (all []stack.Account) {
	for n := range b.pools {
		all = append(all, stack.Account{Name: fmt.Sprintf("owned-%d", n), HyperscalerType: b.pool(n), Labels: map[string]string{"tenantName": "ga-owner"}})
	}
	return all
}

func (b *bench) region(pool int) string { return fmt.Sprintf("cf-r%03d", pool) }
func (b *bench) pool(pool int) string   { return "aws_" + b.region(pool) }

func (b *bench) connect(ctx context.Context) (err error) {
	if b.nc, err = nats.Connect(b.stack.NATS.URL()); err != nil {
		return err
	}
	if b.js, err = publishing.New(b.nc, publishAhead); err != nil {
		return err
	}
	if b.subjects, err = events.NewSubjects(""); err != nil {
		return err
	}
	if _, err := storage.Setup(ctx, b.js, storage.Options{Manage: true}); err != nil {
		return err
	}
	sub, err := b.nc.Subscribe(b.subjects.Replies(), b.hear)
	if err != nil {
		return err
	}
	return errors.Join(sub.SetPendingLimits(-1, -1), b.nc.Flush())
}

// hear records a reply.
func (b *bench) hear(msg *nats.Msg) {
	now := time.Now()
	reply, err := events.DecodeReply(msg.Data)
	if err != nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if reply.Status == events.StatusWaiting {
		b.waiting++
	}
	b.answered[msg.Subject+" "+string(reply.Status)] = now
	if reply.Status == events.StatusAssigned {
		b.served[reply.GlobalAccountID] = true
		b.answered[reply.Binding.Name+" "+string(reply.Status)] = now
	}
	close(b.arrived)
	b.arrived = make(chan struct{})
}

// answer waits for a reply with a status on a subject, or with an account by its name, and returns when it came.
func (b *bench) answer(ctx context.Context, of string, status events.Status) (at time.Time, err error) {
	err = b.until(ctx, of+" is "+string(status), func() bool {
		key := of + " " + string(status)
		at = b.answered[key]
		delete(b.answered, key)
		return !at.IsZero()
	})
	return at, err
}

// until calls so under the lock, at once and after replies, until so returns true. After longest, it returns an error.
func (b *bench) until(ctx context.Context, what string, so func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	for {
		b.mu.Lock()
		done, arrived := so(), b.arrived
		b.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-arrived:
		case <-ctx.Done():
			return fmt.Errorf("until %s: %w", what, ctx.Err())
		}
	}
}

// request is a request for one runtime.
type request struct {
	runtime, tenant string
	pool            int
}

func (r request) provisionReply(s events.Subjects) string { return s.Reply(r.runtime, "p-"+r.runtime) }
func (r request) deprovisionReply(s events.Subjects) string {
	return s.Reply(r.runtime, "d-"+r.runtime)
}

// next returns a request for a new runtime that has to wait. Pools and tenants take turns. A tenant that was served
// has an account and would not wait: a new tenant replaces it.
func (b *bench) next() request {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.made
	b.made++
	tenant := fmt.Sprintf("ga-%d", n%b.tenants)
	if b.served[tenant] {
		tenant = fmt.Sprintf("ga-%d", n)
	}
	return request{fmt.Sprintf("rt-%07d", n), tenant, n % b.pools}
}

// fill publishes requests until it has published size of them in all, and returns when each new one waits.
func (b *bench) fill(ctx context.Context, size int) error {
	b.mu.Lock()
	goal := b.waiting + size - b.filled
	b.mu.Unlock()
	for ; b.filled < size; b.filled++ {
		if err := b.provision(b.next(), time.Time{}); err != nil {
			return err
		}
	}
	if err := b.js.Published(ctx); err != nil {
		return err
	}
	return b.until(ctx, fmt.Sprintf("%d wait", size), func() bool { return b.waiting >= goal })
}

func (b *bench) provision(r request, deadline time.Time) error {
	return b.publish(b.subjects.Provision(r.tenant), events.Event{Type: events.TypeProvision, ID: "p-" + r.runtime, Source: "/bench", RuntimeID: r.runtime, Provision: &events.Provision{
		RuntimeID: r.runtime, GlobalAccountID: r.tenant, Plan: "aws", PlatformRegion: b.region(r.pool), HyperscalerRegion: "eu-central-1",
		ShootName: "c-" + r.runtime, Deadline: deadline,
	}})
}

func (b *bench) deprovision(r request) error {
	return b.publish(b.subjects.Deprovision(r.tenant), events.Event{Type: events.TypeDeprovision, ID: "d-" + r.runtime, Source: "/bench", RuntimeID: r.runtime, Deprovision: &events.Deprovision{
		RuntimeID: r.runtime, GlobalAccountID: r.tenant,
	}})
}

func (b *bench) publish(subject string, e events.Event) error {
	data, err := events.EncodeEvent(e)
	if err != nil {
		return err
	}
	_, err = b.js.PublishMsgAsync(&nats.Msg{Subject: subject, Data: data, Header: nats.Header{
		"Content-Type": {events.ContentType}, "Nats-Msg-Id": {string(e.Type) + "/" + e.ID},
	}}, jetstream.WithStallWait(time.Minute))
	return err
}

func (b *bench) stop() error {
	if b.nc != nil {
		b.nc.Close()
	}
	if b.redis != nil {
		_ = b.redis.Close()
	}
	return b.stack.Stop()
}
