package integration_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hap-worker/hap-worker/cmd/daemon"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/audit"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// verified has what hapctl counters verify prints.
type verified struct {
	Drifts, Changed []struct{ Kind, Pool, Binding, RuntimeID, Message, Remedy string }
	NotBuilt        []string
	Runtimes        int
}

// kinds are those of the drifts that are left, each with what it is about.
func (v verified) kinds() []string {
	var out []string
	for _, d := range v.Drifts {
		out = append(out, strings.TrimSuffix(d.Kind+" "+d.Binding+"/"+d.RuntimeID, "/"))
	}
	slices.Sort(out)
	return out
}

// operatorOf runs hapctl on the landscape.
func operatorOf(t *testing.T, l *landscape) func(exit int, args ...string) (string, string) {
	t.Helper()
	bin := buildHapctl(t)
	return func(exit int, args ...string) (string, string) {
		t.Helper()
		var stdout, stderr bytes.Buffer
		c := exec.CommandContext(l.ctx, filepath.Join(bin, "hapctl"), append(args, "--config", l.stack.Config)...)
		c.Stdin, c.Stdout, c.Stderr = strings.NewReader(""), &stdout, &stderr
		err := c.Run()
		var ended *exec.ExitError
		if err != nil && !errors.As(err, &ended) {
			t.Fatal(err)
		}
		if got := c.ProcessState.ExitCode(); got != exit {
			t.Fatalf("hapctl %v ends with %d, want %d:\n%s%s", args, got, exit, stdout.String(), stderr.String())
		}
		return stdout.String(), stderr.String()
	}
}

// byHand is a connection to Redis that writes records as an operator should not.
func (l *landscape) byHand() *redis.Client {
	l.t.Helper()
	client := redis.NewClient(&redis.Options{Addr: strings.TrimPrefix(l.stack.Redis.URL(), "redis://"), DisableIdentity: true})
	l.t.Cleanup(func() { client.Close() })
	return client
}

// TestDriftIsFoundAndRepaired makes drift by hand on a running system: hapctl
// names it, mends what is safe, and leaves the rest to be looked at.
func TestDriftIsFoundAndRepaired(t *testing.T) {
	t.Parallel()
	l := newLandscape(t, oneAccountRules, accounts("aws", 12))
	l.work(daemon.Options{})
	hapctl := operatorOf(t, l)
	on := map[string]string{} // binding of each tenant's first runtime
	for n := range 8 {
		for i := range 2 {
			e := ask(fmt.Sprintf("rt-%d-%d", n, i), fmt.Sprintf("ga-%d", n))
			l.provision(e)
			on[e.Provision.GlobalAccountID] = l.assigned(e)
		}
	}
	// A bucket that is emptied by hand is a lost key, and built anew.
	for id, tenant := range map[string]string{"rt-1-0": "ga-1", "rt-4-0": "ga-4"} {
		e := ask(besides(id), tenant)
		l.provision(e)
		l.assigned(e)
	}
	verify := func(exit int, args ...string) verified {
		t.Helper()
		out, _ := hapctl(exit, append([]string{"counters", "verify", "-o", "json"}, args...)...)
		var v verified
		if err := json.Unmarshal([]byte(out), &v); err != nil {
			t.Fatalf("%v:\n%s", err, out)
		}
		return v
	}
	if v := verify(0); v.Runtimes != 18 {
		t.Errorf("nothing drifts with %+v", v)
	}

	idle := l.drift(on)
	want := []string{
		"claimed-idle " + idle,
		"count-wrong " + on["ga-0"],
		"count-wrong " + on["ga-1"],
		"dirty-under-runtimes " + on["ga-3"],
		"place-missing /rt-4-0",
		"runtime-missing " + on["ga-1"] + "/rt-1-0",
		"runtime-unknown " + on["ga-5"] + "/ghost",
		"sequence-behind ",
		"shoot-elsewhere " + on["ga-6"] + "/rt-6-0",
		"shoot-gone " + on["ga-5"] + "/adopted",
		"shoot-unknown " + on["ga-7"] + "/newcomer",
		"tenant-contradicts " + on["ga-2"],
	}
	slices.Sort(want)
	if v := verify(5); !slices.Equal(v.kinds(), want) {
		t.Fatalf("drift is\n%s\nwant\n%s", strings.Join(v.kinds(), "\n"), strings.Join(want, "\n"))
	}

	if _, said := hapctl(2, "counters", "verify", "--repair"); !strings.Contains(said, "--yes") {
		t.Errorf("a repair that nobody agreed to is told: %s", said)
	}
	hapctl(2, "counters", "verify", "--drain-idle")
	left := []string{
		"claimed-idle " + idle, "dirty-under-runtimes " + on["ga-3"], "runtime-unknown " + on["ga-5"] + "/ghost",
		"shoot-elsewhere " + on["ga-6"] + "/rt-6-0", "tenant-contradicts " + on["ga-2"],
	}
	v := verify(5, "--repair", "--yes")
	if !slices.Equal(v.kinds(), left) {
		t.Fatalf("after the repair drift is\n%s\nwant\n%s", strings.Join(v.kinds(), "\n"), strings.Join(left, "\n"))
	}
	if len(v.Changed) != len(want)-len(left) {
		t.Errorf("changed were %+v", v.Changed)
	}
	l.repaired(on)

	// Only where it is asked for, an idle account drains and becomes dirty.
	if b := l.binding(idle); b.Dirty {
		t.Errorf("%s is %+v", idle, b)
	}
	v = verify(5, "--repair", "--drain-idle", "--yes")
	if len(v.Changed) != 1 || slices.Contains(v.kinds(), left[0]) {
		t.Errorf("the idle account was not drained: %+v", v)
	}
	eventually(l.ctx, t, func() error {
		if b := l.binding(idle); !b.Dirty {
			return fmt.Errorf("%s is not dirty: %+v", idle, b)
		}
		return nil
	})

	// An operator mends the rest by hand.
	l.label(on["ga-2"], map[string]any{"tenantName": "ga-2"})
	l.label(on["ga-3"], map[string]any{"dirty": nil})
	l.remove(shootsResource, "c-rt-6-0")
	hand := l.byHand()
	hand.HDel(l.ctx, "hap:{aws}:r", "ghost")
	if v := verify(5); !slices.Equal(v.kinds(), []string{"count-wrong " + on["ga-5"]}) {
		t.Errorf("drift is %q", v.kinds())
	}
	verify(0, "--repair", "--yes")
}

// drift makes one of each kind that can be made from outside; it returns the account
// that is claimed by its label and has no runtime on it.
func (l *landscape) drift(on map[string]string) (idle string) {
	l.t.Helper()
	hand := l.byHand()
	l.miscount(hand, on["ga-0"], 7)
	hand.HDel(l.ctx, "hap:{aws}:r", "rt-1-0")
	hand.HDel(l.ctx, directoryOf("rt-1-0"), "rt-1-0")
	hand.HDel(l.ctx, directoryOf("rt-4-0"), "rt-4-0")
	l.invent(hand, "ghost", on["ga-5"], "9||1|own|ga-5")
	l.invent(hand, "adopted", on["ga-5"], "0||1|shoot|ga-5")
	l.miscount(hand, on["ga-5"], 4)
	hand.HSet(l.ctx, "hap:{aws}:meta", "seq", 3)
	l.label(on["ga-2"], map[string]any{"tenantName": "ga-else"})
	l.label(on["ga-3"], map[string]any{"dirty": "true"})
	for _, tenant := range []string{"ga-2", "ga-3"} { // the worker sees that before anybody repairs
		l.record("aws", on[tenant], func(r account.Record) bool { return !r.Confirmed })
	}
	l.shoot("rt-6-0", on["ga-7"])
	l.shoot("newcomer", on["ga-7"])
	return l.claimIdle(slices.Collect(maps.Values(on)), 12)
}

// miscount writes a wrong count into the record of an account.
func (l *landscape) miscount(hand *redis.Client, binding string, count int) {
	l.t.Helper()
	fields := strings.Split(hand.HGet(l.ctx, "hap:{aws}:b", binding).Val(), "|")
	fields[4] = fmt.Sprint(count)
	hand.HSet(l.ctx, "hap:{aws}:b", binding, strings.Join(fields, "|"))
}

// invent writes a runtime that was never asked for: what follows the binding in its record.
func (l *landscape) invent(hand *redis.Client, runtime, binding, rest string) {
	l.t.Helper()
	hand.HSet(l.ctx, "hap:{aws}:r", runtime, "assigned|"+binding+"|"+rest)
	hand.HSet(l.ctx, directoryOf(runtime), runtime, "pool|aws")
}

func directoryOf(runtime string) string { return "hap:{" + account.BucketOf(runtime) + "}:d" }

// besides is an id in the bucket of another.
func besides(id string) string {
	for n := 0; ; n++ {
		if other := fmt.Sprintf("rt-beside-%d", n); account.BucketOf(other) == account.BucketOf(id) {
			return other
		}
	}
}

// claimIdle labels one of n accounts that is not used, and waits until Redis has it.
func (l *landscape) claimIdle(used []string, n int) (idle string) {
	l.t.Helper()
	for i := range n {
		if name := fmt.Sprintf("aws-%02d", i+1); !slices.Contains(used, name) {
			idle = name
			break
		}
	}
	l.label(idle, map[string]any{"tenantName": "ga-idle"})
	l.record("aws", idle, func(r account.Record) bool { return r.State == account.InUse && r.Tenant == "ga-idle" })
	return idle
}

// repaired looks whether Redis has what it should after the repair.
func (l *landscape) repaired(on map[string]string) {
	l.t.Helper()
	facts := l.facts()
	for tenant, count := range map[string]int{"ga-0": 2, "ga-1": 3, "ga-4": 3, "ga-5": 3, "ga-7": 3} {
		if r := facts.Record(facts.Bindings[on[tenant]]); r.Count != count || r.Tenant != tenant || r.State != account.InUse {
			l.t.Errorf("the account of %s is %+v, want %d runtimes", tenant, r, count)
		}
	}
	for _, id := range []string{"rt-1-0", "newcomer"} {
		if r := facts.Runtimes[id]; len(r) != 1 || r[0].State != account.RuntimeAssigned {
			l.t.Errorf("%s is %+v", id, r)
		}
	}
	if facts.Runtimes["adopted"] != nil {
		l.t.Errorf("the runtime whose Shoot is gone is %+v", facts.Runtimes["adopted"])
	}
	// The account with another's label gains no runtime, the one that was restored does,
	// under a number that was not given before.
	l.provision(ask("rt-2-2", "ga-2"), ask("rt-1-2", "ga-1"))
	if got := l.assigned(ask("rt-1-2", "ga-1")); got != on["ga-1"] {
		l.t.Errorf("the next of ga-1 is on %s, want %s", got, on["ga-1"])
	}
	if r := l.answered(ask("rt-1-2", "ga-1")); r.Decision.Sequence <= 18 {
		l.t.Errorf("its number is %d, numbers up to 18 were given", r.Decision.Sequence)
	}
	if got := l.assigned(ask("rt-2-2", "ga-2")); got == on["ga-2"] {
		l.t.Errorf("the next of ga-2 is on %s, whose label is ga-else's", got)
	}
	// A restored runtime is found by its deprovision.
	l.depart(goes("rt-1-0", "ga-1"))
	if r := l.answered(goes("rt-1-0", "ga-1")); r.Binding == nil || r.Binding.Name != on["ga-1"] || *r.Clusters != 3 {
		l.t.Errorf("the deprovision of a restored runtime is answered %s %+v", r.Status, r.Binding)
	}
}

// TestNothingInMotionIsDrift audits while events are served: what is only on its
// way is not reported.
func TestNothingInMotionIsDrift(t *testing.T) {
	t.Parallel()
	l := newLandscape(t, oneAccountRules, roomyAccounts(30))
	l.work(daemon.Options{})
	from := sources(t, l.stack, l.js, l.subjects)
	audits := make(chan observe.Drift, 1000)
	ctx, stop := context.WithCancel(l.ctx)
	ended := make(chan struct{})
	auditor := audit.Auditor{
		Audit: &audit.Audit{
			Records: from.Counters, Repairer: from.Counters, Ledger: from.Ledger, Inventory: from.Gardener, Reader: from.Gardener,
			Waiting: storage.NewWaitingRoom(l.js, l.subjects).Addresses, Pause: 50 * time.Millisecond,
		},
		Settings: func() (time.Duration, bool) { return time.Millisecond, true },
		Observer: observe.Observer{OnDrift: func(_ context.Context, i observe.Drift) { audits <- i }},
	}
	go func() {
		defer close(ended)
		auditor.Run(ctx)
	}()
	random := newRandom(t)
	var alive []events.Event
	for n := 0; n < 400 || len(audits) < 3; n++ { // a slow machine audits less often
		if len(alive) > 20 && random.IntN(3) == 0 {
			l.deprovision(leaves(takeAny(random, &alive), 0))
			continue
		}
		e := randomProvision(random, n)
		e.Provision.GlobalAccountID = fmt.Sprintf("ga-%02d", random.IntN(15))
		l.publish(e, "")
		alive = append(alive, e)
		if n%40 == 0 {
			l.flush()
			l.awaitSettled()
		}
	}
	l.flush()
	l.awaitSettled()
	stop()
	<-ended
	close(audits)
	for i := range audits {
		if len(i.Found) > 0 || i.Err != nil && !errors.Is(i.Err, context.Canceled) {
			t.Errorf("an audit found %+v, %v", i.Found, i.Err)
		}
	}
}

// TestRebuildByHand discards what Redis has, on a running system and without any worker.
func TestRebuildByHand(t *testing.T) {
	t.Parallel()
	l := newLandscape(t, oneAccountRules, accounts("aws", 3))
	w := l.work(daemon.Options{})
	hapctl := operatorOf(t, l)
	l.provision(ask("rt-1", "ga-1"), ask("rt-2", "ga-2"))
	l.awaitSettled()
	before := l.facts()
	hapctl(2, "counters", "rebuild")
	hapctl(0, "counters", "rebuild", "--yes")
	l.provision(ask("rt-3", "ga-1"))
	if got := l.assigned(ask("rt-3", "ga-1")); before.Record(before.Bindings[got]).Tenant != "ga-1" {
		t.Errorf("after a rebuild ga-1 gets %s", got)
	}
	if err := w.end(); err != nil {
		t.Fatal(err)
	}
	if err := l.stack.Redis.Lose(l.ctx); err != nil {
		t.Fatal(err)
	}
	hapctl(1, "counters", "verify")
	out, _ := hapctl(0, "counters", "rebuild", "--yes", "-o", "json")
	if !strings.Contains(out, `"runtimes": 3`) {
		t.Errorf("rebuilt is %s", out)
	}
	hapctl(0, "counters", "verify")
}
