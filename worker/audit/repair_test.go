package audit_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker/audit"
	"github.com/hap-worker/hap-worker/worker/memory"
)

// mender records the repairs in order.
type mender struct {
	audit.Repairer
	restores bool
	calls    []string
}

func (m *mender) Recount(_ context.Context, _, binding string) (bool, error) {
	m.calls = append(m.calls, "recount "+binding)
	return true, nil
}

func (m *mender) Locate(_ context.Context, _, pool string) (account.Place, error) {
	return account.Place{Pool: pool}, nil
}

func (m *mender) Restore(_ context.Context, _, runtime string, _, rt account.Runtime, _ account.Record) (bool, error) {
	m.calls = append(m.calls, fmt.Sprintf("restore %s on %s", runtime, rt.Binding))
	return m.restores, nil
}

func (m *mender) DropAdopted(_ context.Context, _, runtime, binding string) (bool, error) {
	m.calls = append(m.calls, fmt.Sprintf("drop %s of %s", runtime, binding))
	return true, nil
}

func (m *mender) ReleaseUnchanged(_ context.Context, pool, runtime string, _ account.Runtime) (bool, error) {
	m.calls = append(m.calls, fmt.Sprintf("release %s in %s", runtime, pool))
	return true, nil
}

// A runtime whose Shoot is gone leaves its account. If it is the last one of a claim, it leaves only if the operator
// asks for that, as its deprovision would: otherwise that would find nothing to drain.
func TestShootThatIsGone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		rec   account.Record
		drain bool
		want  []string
	}{
		{"beside another", account.Record{State: account.InUse, Tenant: "ga", Count: 2}, false, []string{"drop rt-1 of a"}},
		{"the last", account.Record{State: account.InUse, Tenant: "ga", Count: 1}, false, nil},
		{"the last, and the claim may drain", account.Record{State: account.InUse, Tenant: "ga", Count: 1}, true, []string{"release rt-1 in aws"}},
		{"the last of a shared account", account.Record{State: account.InUse, Count: 1}, false, []string{"drop rt-1 of a"}},
		{"the last of one that drains", account.Record{State: account.Draining, Tenant: "ga", Count: 1}, false, []string{"drop rt-1 of a"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := &mender{}
			gone := account.Drift{Kind: account.ShootGone, Pool: "aws", Binding: "a", Runtime: "rt-1", Record: c.rec}
			if changed, err := (&audit.Audit{Repairer: m}).Repair(t.Context(), gone, c.drain); err != nil || changed != (c.want != nil) {
				t.Error(changed, err)
			}
			if !slices.Equal(m.calls, c.want) {
				t.Errorf("it does %q, want %q", m.calls, c.want)
			}
		})
	}
}

// While an operator thinks about a report, the runtime whose Shoot is gone may be answered with its account. Then the
// account stays claimed, although the operator agrees that idle ones drain.
func TestRuntimeAnsweredSinceTheReport(t *testing.T) {
	t.Parallel()
	ctx, redis := t.Context(), memory.NewCounters()
	adopted := account.Runtime{State: account.RuntimeAssigned, Binding: "a", Sequence: 1, Confirmed: true, Origin: account.Adopted, Tenant: "ga"}
	if mine, err := redis.BeginRebuild(ctx, "aws", "t", time.Now(), 0); !mine || err != nil {
		t.Fatal(mine, err)
	}
	installed, err := redis.Install(ctx, "aws", "t", account.Snapshot{
		Sequence: 1, Runtimes: maps.All(map[string]account.Runtime{"rt-1": adopted}),
		Bindings: map[string]account.Record{"a": {State: account.InUse, Tenant: "ga", Generation: 1, Count: 1, Confirmed: true}},
	})
	if !installed || err != nil {
		t.Fatal(installed, err)
	}
	rec, err := redis.Binding(ctx, "aws", "a")
	if err != nil {
		t.Fatal(err)
	}
	gone := account.Drift{Kind: account.ShootGone, Pool: "aws", Binding: "a", Runtime: "rt-1", Record: rec, Entry: adopted}
	if d, err := redis.Assign(ctx, "aws", account.Request{Runtime: "rt-1", Request: "op-1", Tenant: "ga"}); d.Binding != "a" || err != nil {
		t.Fatal(d, err)
	}
	mends := &audit.Audit{Repairer: redis}
	if changed, err := mends.Repair(ctx, gone, true); changed || err != nil {
		t.Error("it was released under its new request:", changed, err)
	}
	if rec, err := redis.Binding(ctx, "aws", "a"); rec.State != account.InUse || err != nil {
		t.Error(rec, err)
	}
	if gone.Entry, err = redis.RuntimeIn(ctx, "aws", "rt-1"); err != nil {
		t.Fatal(err)
	}
	if changed, err := mends.Repair(ctx, gone, true); !changed || err != nil {
		t.Error("it was not released as it is:", changed, err)
	}
}

// If a count is lowered before the lost runtimes are restored, another runtime may take the room, and the
// account ends above its limit.
func TestCountsAreRepairedLast(t *testing.T) {
	t.Parallel()
	missing := account.Drift{
		Kind: account.RuntimeMissing, Pool: "aws", Binding: "a", Runtime: "rt-1", Lacking: "a",
		Wanted: account.Runtime{State: account.RuntimeAssigned, Binding: "a", Sequence: 3},
	}
	above, below := account.Drift{Kind: account.CountWrong, Pool: "aws", Binding: "a", Surplus: 1}, account.Drift{Kind: account.CountWrong, Pool: "aws", Binding: "a", Surplus: -1}
	unwanted := missing
	unwanted.Wanted = account.Runtime{} // Redis has the higher number
	elsewhere := account.Drift{Kind: account.RuntimeElsewhere, Pool: "aws", Binding: "b", Runtime: "rt-1", Lacking: "a"}
	for _, c := range []struct {
		name     string
		restores bool
		drifts   []account.Drift
		want     []string
	}{
		{"the runtime is put back", true, []account.Drift{above, missing}, []string{"restore rt-1 on a", "recount a"}},
		{"it is not put back", false, []account.Drift{above, missing}, []string{"restore rt-1 on a"}},
		{"it may not be put back", false, []account.Drift{above, unwanted}, nil},
		{"it is on another account, by a higher number", false, []account.Drift{above, elsewhere}, nil},
		{"too low a count is raised all the same", false, []account.Drift{below, unwanted}, []string{"recount a"}},
		{"nothing is missing", false, []account.Drift{above}, []string{"recount a"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := &mender{restores: c.restores}
			if _, err := (&audit.Audit{Repairer: m}).RepairAll(t.Context(), c.drifts, false); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(m.calls, c.want) {
				t.Errorf("it does %q, want %q", m.calls, c.want)
			}
		})
	}
}

// A runtime that Redis has lost is no drift while an event of it is in progress, nor is its account's count.
func TestCountOfAForgottenRuntimeInMotion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, audit := newPassage(t)
		p.answered("rt-1", p.arrives("rt-1"))
		p.answered("rt-2", p.arrives("rt-2"))
		kept, err := p.RuntimeIn(t.Context(), "aws", "rt-2")
		if err != nil {
			t.Fatal(err)
		}
		stale := account.Record{State: account.InUse, Tenant: "ga", Generation: 1, Count: 2}
		if _, err := p.Discard(t.Context(), "aws"); err != nil {
			t.Fatal(err)
		}
		if mine, err := p.BeginRebuild(t.Context(), "aws", "behind", time.Now(), 0); !mine || err != nil {
			t.Fatal(mine, err)
		}
		installed, err := p.Install(t.Context(), "aws", "behind", account.Snapshot{
			Sequence: 2, Bindings: map[string]account.Record{"a": stale}, Runtimes: maps.All(map[string]account.Runtime{"rt-2": kept}),
		})
		if !installed || err != nil {
			t.Fatal(installed, err)
		}
		msg, err := events.Publication(p.subjects, provisionOf("rt-1"))
		if err == nil {
			_, err = p.broker.Publish(t.Context(), msg)
		}
		if err != nil {
			t.Fatal(err)
		}
		found, err := audit.Verify(t.Context())
		if err != nil || len(found.Drifts) != 0 {
			t.Errorf("the audit finds %+v, %v", found.Drifts, err)
		}
	})
}
