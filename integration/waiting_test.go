package integration_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/integration/checker"
	"github.com/hap-worker/hap-worker/integration/stack"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

// ask is a provision of plan aws for a tenant.
func ask(id, tenant string) events.Event {
	return events.Event{
		Type: events.TypeProvision, ID: "req-" + id, Source: "/integration", RuntimeID: id,
		Provision: &events.Provision{RuntimeID: id, GlobalAccountID: tenant, Plan: "aws"},
	}
}

func goes(id, tenant string) events.Event {
	return events.Event{
		Type: events.TypeDeprovision, ID: "bye-" + id, Source: "/integration", RuntimeID: id,
		Deprovision: &events.Deprovision{RuntimeID: id, GlobalAccountID: tenant},
	}
}

// TestTenantsRaceForAccounts is 200 tenants that race for 100 accounts: 100 are
// served, 100 wait, and all are served in turn as accounts return.
func TestTenantsRaceForAccounts(t *testing.T) {
	t.Parallel()
	const tenants, accounts = 200, 100
	s := startStack(t, stack.Options{Config: []byte(oneAccountRules), Accounts: roomyAccounts(accounts)[:accounts], Workers: 2})
	p := newPublisher(t, s)
	for n := range tenants {
		p.publish(ask(fmt.Sprintf("rt-%03d", n), fmt.Sprintf("ga-%03d", n)), "")
	}
	p.flush()
	p.awaitSettled()
	served, waiting := p.byStatus()
	if len(served) != accounts || len(waiting) != tenants-accounts {
		t.Fatalf("%d are served and %d wait, want %d and %d", len(served), len(waiting), accounts, tenants-accounts)
	}
	for _, r := range waiting {
		if r.Waiting.Reason != events.WaitingPoolEmpty || r.Waiting.Position < 1 || r.Waiting.Position > tenants-accounts || r.Waiting.Deadline.Before(time.Now()) {
			t.Errorf("runtime %s waits as %+v", r.RuntimeID, r.Waiting)
		}
	}
	slices.SortFunc(waiting, func(a, b events.Reply) int { return int(a.Decision.Sequence - b.Decision.Sequence) })

	// One account returns: who waits longest gets it.
	p.giveBack(served[0])
	first := waiting[0].RuntimeID
	eventually(p.ctx, t, func() error {
		if r := p.replies(first)[0]; r.Status != events.StatusAssigned || r.Binding.Name != served[0].Binding.Name {
			return fmt.Errorf("%s is %s, want it to get %s", first, r.Status, served[0].Binding.Name)
		}
		return nil
	})
	for _, r := range served[1:] {
		p.giveBack(r)
	}
	eventually(p.ctx, t, func() error {
		if _, waiting := p.byStatus(); len(waiting) > 0 {
			return fmt.Errorf("%d still wait", len(waiting))
		}
		return nil
	})
	for _, violation := range p.facts().Violations(checker.Terms{OneAccount: true}) {
		t.Error(violation)
	}
}

// TestWaitingEnds is how a request stops to wait without being served: at its
// deadline, and because its runtime goes.
func TestWaitingEnds(t *testing.T) {
	t.Parallel()
	s := startStack(t, stack.Options{Config: []byte(oneAccountRules), Accounts: []stack.Account{}, Workers: 2})
	p := newPublisher(t, s)
	late := ask("rt-late", "ga-1")
	late.Provision.Deadline = time.Now().Add(3 * time.Second)
	p.publish(late, "")
	p.publish(ask("rt-gone", "ga-2"), "")
	p.flush()
	p.awaitSettled()
	if _, waiting := p.byStatus(); len(waiting) != 2 {
		t.Fatalf("waiting are %+v, want both", waiting)
	}
	provision := p.published["rt-gone"]["req-rt-gone"]
	p.deprovision(goes("rt-gone", "ga-2"))
	p.flush()
	p.awaitSettled()
	if r := p.replies("rt-gone")[0]; r.Status != events.StatusReleased {
		t.Errorf("the deprovision is answered %+v", r)
	}
	if r := p.reply(provision); r.Status != events.StatusRejected || r.Error.Code != "Superseded" {
		t.Errorf("the provision that waited is answered %+v", r)
	}
	eventually(p.ctx, t, func() error {
		if r := p.replies("rt-late")[0]; !r.Final() {
			return fmt.Errorf("at its deadline the request is left as %s", r.Status)
		}
		return nil
	})
	if r := p.replies("rt-late")[0]; r.Status != events.StatusRejected || r.Error.Code != "PoolExhausted" || !r.Error.Retryable {
		t.Errorf("the late request is answered %+v", r)
	}
	eventually(p.ctx, t, func() error {
		if room, err := p.js.Stream(p.ctx, events.StreamWaiting); err != nil || room.CachedInfo().State.Msgs > 0 {
			return fmt.Errorf("the waiting room is not empty: %w", err)
		}
		return nil
	})
}

// byStatus returns the replies that assign and those that wait, by runtime.
func (p *publisher) byStatus() (assigned, waiting []events.Reply) {
	p.t.Helper()
	for id := range p.published {
		for _, r := range p.replies(id) {
			switch r.Status {
			case events.StatusAssigned:
				assigned = append(assigned, r)
			case events.StatusWaiting:
				waiting = append(waiting, r)
			}
		}
	}
	return assigned, waiting
}

// giveBack deprovisions the only runtime of a binding and releases the binding.
func (p *publisher) giveBack(r events.Reply) {
	p.t.Helper()
	p.deprovision(goes(r.RuntimeID, r.GlobalAccountID))
	p.flush()
	eventually(p.ctx, p.t, func() error {
		if gone := p.replies(r.RuntimeID)[0:]; len(gone) == 0 || !gone[0].MarkedDirty {
			return fmt.Errorf("%s is not dirty yet: %+v", r.Binding.Name, gone)
		}
		return nil
	})
	release := events.Event{
		Type: events.TypeRelease, ID: "clean-" + r.Binding.Name, Source: "/cleanup", Binding: r.Binding.Name,
		Release: &events.Release{Binding: r.Binding.Name, Generation: &r.Binding.Generation},
	}
	p.send(release, p.subjects.Release(r.Binding.Name), "")
	p.flush()
	eventually(p.ctx, p.t, func() error {
		if back := p.reply(release.ReplySubject(p.subjects)); back.Status != events.StatusReturned {
			return fmt.Errorf("the release of %s is %s %+v", r.Binding.Name, back.Status, back.Error)
		}
		return nil
	})
}

// reply returns what is stored under a subject; the zero Reply for nothing.
func (p *publisher) reply(subject string) events.Reply {
	p.t.Helper()
	stored, _, err := storage.NewLedger(p.js, p.subjects, "/integration").Last(p.ctx, subject)
	if err != nil {
		p.t.Fatal(err)
	}
	return stored.Reply
}
