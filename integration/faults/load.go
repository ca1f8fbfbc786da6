package faults

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/client-go/dynamic"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/gardener"
	"github.com/hap-worker/hap-worker/integration/checker"
)

// Landscape is the environment of a Load. Its workers must have the rules of Config, its namespace the
// Accounts, and its streams must exist.
type Landscape struct {
	JetStream jetstream.JetStream
	Kube      dynamic.Interface // without a rate limit
	Namespace string
	// Resource is the kind of the accounts: gardener.CredentialsBindings, the default,
	// or gardener.SecretBindings.
	Resource gardener.Resource
	Sources  checker.Sources
}

// LoadOptions configure a Load.
type LoadOptions struct {
	Seed uint64 // of the broker's random choices
	Dir  string // receives the facts of the end; must exist
	// Every is the time between two steps of the broker. Defaults to 70 ms.
	Every time.Duration
	// Settle is how long the end state may take. Defaults to 3 min.
	Settle time.Duration
	// Log gets a line if the facts of the end cannot be written. Required.
	Log func(format string, args ...any)
}

// Load is a broker and a cleanup job at work, and a record of what they did and saw. The caller injects faults
// meanwhile:
//
//	l, err := faults.StartLoad(ctx, landscape, faults.LoadOptions{…})
//	defer l.Close()
//	… // break things, and mend them
//	report, err := l.Conclude()
type Load struct {
	*broker

	o         LoadOptions
	sources   checker.Sources
	cancel    context.CancelFunc
	began     time.Time
	rest      func() // stops the steps, and waits for the last one
	observers sync.WaitGroup
}

// StartLoad starts a load. Its steps end with Conclude, and everything of it ends with ctx or Close.
func StartLoad(ctx context.Context, where Landscape, o LoadOptions) (*Load, error) {
	l, err := newLoad(ctx, where, o)
	if err != nil {
		return nil, err
	}
	l.begin()
	return l, nil
}

func newLoad(ctx context.Context, where Landscape, o LoadOptions) (*Load, error) {
	if o.Every == 0 {
		o.Every = 70 * time.Millisecond
	}
	if o.Settle == 0 {
		o.Settle = 3 * time.Minute
	}
	resource := cmp.Or(where.Resource, gardener.CredentialsBindings)
	kind, known := accountKinds[resource]
	if !known {
		return nil, fmt.Errorf("a load cannot be on accounts that are %s, only on bindings", resource)
	}
	subjects, err := events.NewSubjects("")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	return &Load{o: o, sources: where.Sources, cancel: cancel, rest: func() {}, broker: &broker{
		book: newBook(o.Seed), ctx: ctx, js: where.JetStream, subjects: subjects, kube: where.Kube, namespace: where.Namespace, accounts: kind,
	}}, nil
}

// begin starts the observers and the steps.
func (l *Load) begin() {
	l.observers.Go(l.watchLabels)
	l.observers.Go(l.followReplies)
	l.began = time.Now()
	enough := make(chan struct{})
	var steps sync.WaitGroup
	l.rest = sync.OnceFunc(func() {
		close(enough)
		steps.Wait()
	})
	steps.Go(func() {
		tick := time.NewTicker(l.o.Every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				l.step()
			case <-enough:
				return
			case <-l.ctx.Done():
				return
			}
		}
	})
}

// Note records an event that the caller is about to publish itself: it has to be answered, too.
func (l *Load) Note(e events.Event) { l.wrote(e.RuntimeID, e, e.ReplySubject(l.subjects)) }

// Answered is the number of final replies to the load's requests, those of Note included.
func (l *Load) Answered() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.took)
}

// Silence returns the longest time without a final reply from since until now. The replies have the times of NATS.
func (l *Load) Silence(since time.Time) (longest time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := since
	for _, s := range l.stored {
		if s.Reply.Final() && s.Time.After(last) {
			longest, last = max(longest, s.Time.Sub(last)), s.Time
		}
	}
	return max(longest, time.Since(last))
}

// Conclude stops the load, waits until everything is settled, and checks. If nothing is wrong, it then releases all
// runtimes, and checks that every account is free. What is wrong are violations in the report.
func (l *Load) Conclude() (*Report, error) {
	l.rest()
	begin := time.Now()
	report := &Report{Seed: l.o.Seed, Duration: begin.Sub(l.began).Round(time.Second)}
	l.busy.Wait()
	facts, found, err := l.settle()
	if err != nil {
		return nil, err
	}
	report.Settled, report.Figures = time.Since(begin), map[string]int{"bindings": len(facts.Bindings)}
	l.dump(facts, "facts.txt")
	if len(found) == 0 {
		if found, err = l.empty(); err != nil {
			return nil, err
		}
	}
	report.Violations = found
	l.figures(report)
	return report, nil
}

// Close stops the actions and the observers, and waits until they have ended.
func (l *Load) Close() {
	l.cancel()
	l.rest()
	l.busy.Wait()
	l.observers.Wait()
}
