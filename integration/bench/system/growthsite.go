package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/integration/stack"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

// rules returns rules with a pool for each platform region, if there are several pools.
func (l landscape) rules() string {
	if l.Pools == 1 {
		return stack.InitialRules
	}
	return strings.Replace(stack.InitialRules, "- aws\n", "- aws -> PR\n", 1)
}

func (l landscape) kind(n int) string {
	if l.Pools == 1 {
		return "aws"
	}
	return "aws_" + l.region(n)
}

func (l landscape) region(n int) string { return fmt.Sprintf("cf-r%03d", n%l.Pools) }

// account returns the n-th account. It has an owner if n is below owners.
func (l landscape) account(n int) stack.Account {
	a := stack.Account{Name: fmt.Sprintf("aws-%06d", n), HyperscalerType: l.kind(n)}
	if n < l.owners() {
		a.Labels = map[string]string{"tenantName": fmt.Sprintf("ga-%d", n)}
	}
	return a
}

// owners is the number of tenants with an account: half as many as accounts, but at least tenants. The other accounts
// are unclaimed.
func (l landscape) owners() int { return max(tenants, l.Bindings/2) }

// site is the stack of a landscape. Its size is the same in every round.
type site struct {
	*bench
	landscape
}

func openSite(ctx context.Context, s settings, l landscape) (_ *site, err error) {
	l.Bindings = max(l.Bindings, 2*l.Pools)
	accounts := make([]stack.Account, l.Bindings)
	for n := range accounts {
		accounts[n] = l.account(n)
	}
	b := &bench{settings: s}
	b.stack, err = stack.Start(ctx, stack.Options{Gardener: stack.CRDGardener, Config: []byte(l.rules()), Accounts: []stack.Account{}, Talk: os.Stderr})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.stop())
		}
	}()
	kube, err := b.stack.Kube.Config()
	if err != nil {
		return nil, err
	}
	// Not in stack.Start, whose time is limited.
	if err := stack.CreateAccounts(ctx, kube, b.stack.Target, accounts); err != nil {
		return nil, err
	}
	if err := b.connect(); err != nil {
		return nil, err
	}
	if _, err := storage.Setup(ctx, b.publish.js, storage.Options{Manage: true}); err != nil {
		return nil, err
	}
	if err := b.fillLedger(ctx, l); err != nil {
		return nil, err
	}
	if l.Bare {
		return &site{bench: b, landscape: l}, b.startLoops(ctx, bareAnchor, l.Processes)
	}
	for range l.Processes {
		if _, err := b.stack.AddWorker(ctx, os.Stderr, "HAP_TELEMETRY_LOGLEVEL=error"); err != nil {
			return nil, err
		}
	}
	return &site{bench: b, landscape: l}, nil
}

// fillLedger stores a reply to a provision for each runtime, on the accounts with an owner. The workers
// rebuild Redis from them; the bare loop answers with the last one.
func (b *bench) fillLedger(ctx context.Context, l landscape) error {
	for n := range l.Runtimes {
		owner := n % l.owners()
		count := n/l.owners() + 1
		r := events.Reply{
			RequestID: fmt.Sprintf("old-%d", n), RuntimeID: fmt.Sprintf("old-%d", n), Status: events.StatusAssigned,
			GlobalAccountID: fmt.Sprintf("ga-%d", owner), Plan: "aws", Provider: "aws",
			Binding: &events.Binding{
				Name: l.account(owner).Name, Namespace: b.stack.Target.Namespace, Kind: "CredentialsBinding", HyperscalerType: l.kind(owner),
			},
			Clusters: &count,
			Decision: &events.Decision{Sequence: int64(n + 1), Rule: "aws", RuleNumber: 1, Pool: l.kind(owner)},
		}
		data, err := events.EncodeReply(r, "/bench")
		if err != nil {
			return err
		}
		if _, err := b.publish.js.PublishAsync(b.publish.subjects.Reply(r.RuntimeID, r.RequestID), data, jetstream.WithStallWait(time.Minute)); err != nil {
			return err
		}
	}
	return b.publish.js.Published(ctx)
}

// busy is the number of tenants that have clusters from the start: the deprovisions of a round do not empty their
// accounts.
func (l landscape) busy() int { return min(l.owners(), l.Runtimes) }

// measure provisions clusters for tenants that have some, and deprovisions them, so that the landscape keeps
// its size and every round is steady state. Bare loops get only provisions. The load is full: otherwise the number of
// events that a worker handles together would depend on how much faster the workers are than the publisher.
func (s *site) measure(ctx context.Context, round int) (cost, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*roundLimit)
	defer cancel()
	provisions, deprovisions := make([]event, s.events), make([]event, s.events)
	for i := range s.events {
		runtime, owner := fmt.Sprintf("g-%d-%d", round, i), i%s.busy()
		tenant := fmt.Sprintf("ga-%d", owner)
		var errs [2]error
		provisions[i], errs[0] = s.publish.provisionIn(runtime, tenant, s.region(owner))
		deprovisions[i], errs[1] = s.publish.deprovision(runtime, tenant)
		if err := errors.Join(errs[:]...); err != nil {
			return cost{}, err
		}
		if s.Bare {
			provisions[i].subject = bareAnchor.subject(runtime)
		}
	}
	if s.Bare {
		return s.costOf(ctx, bareAnchor.replies(), provisions)
	}
	c, err := s.costOf(ctx, events.StreamReplies, provisions)
	if err != nil {
		return c, err
	}
	_, err = s.publish.answered(ctx, events.StreamReplies, deprovisions)
	return c, err
}

// costOf publishes the events while the answering processes are stopped, and then measures the cost of the answers.
func (s *site) costOf(ctx context.Context, replies string, batch []event) (cost, error) {
	stream, err := s.publish.js.Stream(ctx, replies)
	if err != nil {
		return cost{}, err
	}
	resume, err := s.publish.whileStopped(ctx, s.pids(), batch)
	if err != nil {
		return cost{}, err
	}
	before, err := s.usage(ctx, s.pids()...)
	begin := time.Now()
	if err := errors.Join(err, resume()); err != nil {
		return cost{}, err
	}
	if err := stored(ctx, stream, stream.CachedInfo().State.LastSeq, len(batch)); err != nil {
		return cost{}, err
	}
	took := time.Since(begin)
	after, err := s.usage(ctx, s.pids()...)
	per := func(i int) float64 { return float64((after[i] - before[i]).Microseconds()) / float64(len(batch)) }
	return cost{Worker: per(0), Redis: per(1), NATS: per(2), Rate: float64(len(batch)) / took.Seconds()}, err
}

// pids returns the processes that answer.
func (b *bench) pids() (all []int) {
	for _, w := range b.stack.Workers {
		all = append(all, w.PID())
	}
	for _, l := range b.loops {
		all = append(all, l.Process.Pid)
	}
	return all
}
