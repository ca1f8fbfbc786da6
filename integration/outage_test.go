package integration_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hap-worker/hap-worker/cmd/daemon"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/integration/checker"
	"github.com/hap-worker/hap-worker/integration/stack"
)

// quickWorker stops trying an event soon.
const quickWorker = "worker: {budget: 2s, ackWait: 4s, drain: 2s}\n"

// TestGardenerIsDown stops the Kubernetes API: tenants that have their account are
// served as before, who needs a new one waits without holding a place, and
// everybody is served when the API is back.
func TestGardenerIsDown(t *testing.T) {
	t.Parallel()
	s := startStack(t, stack.Options{Config: []byte(oneAccountRules + quickWorker), Accounts: accounts("aws", 3), Workers: 1})
	l := &landscape{publisher: newPublisher(t, s)}
	steady := ask("rt-steady", "ga-1")
	l.provision(steady)
	name := l.assigned(steady)
	if err := s.Kube.Stop(); err != nil {
		t.Fatal(err)
	}
	news, more, goesNow := ask("rt-new", "ga-2"), ask("rt-more", "ga-1"), goes(steady.RuntimeID, "ga-1")
	l.provision(news, more)
	if got := l.assigned(more); got != name {
		t.Errorf("a tenant that has %s is on %s", name, got)
	}
	r := l.waits(news)
	if r.Waiting.Reason != events.WaitingUnavailable || r.Waiting.Deadline.IsZero() {
		t.Errorf("who needs a claim is answered %+v", r.Waiting)
	}
	// It has left the stream: its place is free for others.
	l.awaitHandled()
	l.deprovision(goesNow)
	l.flush()
	if gone := l.answered(goesNow); gone.Status != events.StatusReleased || *gone.Clusters != 1 {
		t.Errorf("a deprovision that leaves a cluster is answered %+v", gone)
	}
	// Whether a Shoot refers to the account that its last cluster leaves cannot be known: it
	// drains, and is marked dirty when the Shoots can be listed.
	last := goes(more.RuntimeID, "ga-1")
	l.deprovision(last)
	l.flush()
	if r := l.answered(last); r.Status != events.StatusReleased || !r.Draining || r.MarkedDirty {
		t.Errorf("a deprovision whose Shoots are unknown is answered %+v", r)
	}
	if err := s.Kube.Start(l.ctx); err != nil {
		t.Fatal(err)
	}
	if r := l.answered(news); r.Status != events.StatusAssigned || !r.Binding.Claimed {
		t.Errorf("who waited is answered %s %+v", r.Status, r.Binding)
	}
	eventually(l.ctx, t, func() error {
		if b := l.binding(name); !b.Dirty || b.Tenant != "ga-1" {
			return fmt.Errorf("%s is %+v", name, b)
		}
		return nil
	})
	l.awaitSettled()
	l.holds(checker.Terms{OneAccount: true})
}

// TestRedisIsDown takes Redis away from a running worker: it says so, forgets
// nothing that it was asked meanwhile, and goes on by itself.
func TestRedisIsDown(t *testing.T) {
	t.Parallel()
	l := newLandscape(t, oneAccountRules+quickWorker, accounts("aws", 2))
	w := l.work(daemon.Options{})
	first := ask("rt-1", "ga-1")
	l.provision(first)
	name := l.assigned(first)
	if err := l.stack.Redis.Stop(); err != nil {
		t.Fatal(err)
	}
	eventually(l.ctx, t, func() error {
		if failing, err := w.readyz(); err == nil || !slices.Equal(failing, []string{"redis"}) {
			return fmt.Errorf("without Redis /readyz says that %v fails: %w", failing, err)
		}
		return nil
	})
	second := ask("rt-2", "ga-1")
	l.provision(second)
	if err := l.stack.Redis.Start(l.ctx); err != nil {
		t.Fatal(err)
	}
	if got := l.assigned(second); got != name {
		t.Errorf("the tenant has %s and is on %s", name, got)
	}
	eventually(l.ctx, t, func() error { _, err := w.readyz(); return err })
	l.awaitSettled()
	l.holds(checker.Terms{OneAccount: true})
}

// TestStartsBeforeItsParts is a worker that is there before Redis, and before
// NATS: it waits, says for which, and works once they are there.
func TestStartsBeforeItsParts(t *testing.T) {
	t.Parallel()
	for part, stop := range map[string]func(*stack.Stack) (start func() error){
		"redis": func(s *stack.Stack) func() error {
			if err := s.Redis.Stop(); err != nil {
				t.Error(err)
			}
			return func() error { return s.Redis.Start(t.Context()) }
		},
		"nats": func(s *stack.Stack) func() error {
			if err := s.NATS.Stop(); err != nil {
				t.Error(err)
			}
			return func() error { return s.NATS.Start(t.Context()) }
		},
	} {
		t.Run(part, func(t *testing.T) {
			t.Parallel()
			l := newLandscape(t, oneAccountRules, accounts("aws", 1))
			start := stop(l.stack)
			w := l.begin(daemon.Options{})
			eventually(l.ctx, t, func() error {
				failing, err := w.readyz()
				if err == nil {
					t.Fatalf("without %s the worker says that it is ready", part)
				}
				if part == "redis" && slices.Contains(failing, "nats") || !slices.Contains(failing, part) || !strings.Contains(err.Error(), "refused") {
					return fmt.Errorf("/readyz says that %v fails, want it to name %s and why: %w", failing, part, err)
				}
				return nil
			})
			if code, body, err := fetch(w.url + "/healthz"); err != nil || code != 200 {
				t.Errorf("/healthz: %d %s %v", code, body, err)
			}
			if err := start(); err != nil {
				t.Fatal(err)
			}
			eventually(l.ctx, t, func() error { _, err := w.readyz(); return err })
			e := ask("rt-1", "ga-1")
			l.provision(e)
			l.assigned(e)
		})
	}
}
