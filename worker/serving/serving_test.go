package serving_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/memory"
	"github.com/hap-worker/hap-worker/worker/memory/memorytest"
	"github.com/hap-worker/hap-worker/worker/observe"
	"github.com/hap-worker/hap-worker/worker/serving"
)

// desk is a waiting room in memory, with a queue and scripted answers.
type desk struct {
	*serving.Rounds
	t        *testing.T
	broker   *memory.Broker
	subjects events.Subjects
	room     *storage.WaitingRoom
	now      time.Time

	queue   map[string][]account.Waiter // by pool
	broken  error                       // returned by every call of Queue and Heads
	answers map[string]answer           // by request; others get the zero answer
	tried   []string                    // requests; a star marks those that may claim
	lasting []bool                      // result of Lasting("other"), by attempt
	wanted  []string                    // pools
	moved   string                      // request whose rules lead elsewhere
	waits   int                         // number of requests that the observer was last told of
	retries []string                    // errors that the observer was told
	during  func(request string)        // called in each attempt; may be nil
}

// answer is the result of an attempt.
type answer struct {
	result serving.Result
	err    error
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	broker, subjects := memorytest.Streams(t)
	d := &desk{
		t: t, broker: broker, subjects: subjects, room: storage.NewWaitingRoomOn(broker, subjects), now: time.Unix(1000, 0),
		queue: map[string][]account.Waiter{}, answers: map[string]answer{},
	}
	d.Rounds = serving.New(serving.Options{
		Wakes: serving.NewWakes(), Room: d.room, Queue: d, Rebuild: d, Answer: d.answer, Every: time.Second,
		Now:       func() time.Time { return d.now },
		Elsewhere: func(r storage.WaitingRequest) bool { return r.Event.ID == d.moved },
		Observer: &observe.Observer{
			OnWaiting: func(all []observe.Waiting) { d.waits = len(all) },
			OnRetry:   func(_ context.Context, r observe.Retry) { d.retries = append(d.retries, r.Err.Error()) },
		},
	})
	return d
}

func (d *desk) Queue(_ context.Context, pool string) ([]account.Waiter, error) {
	return d.queue[pool], d.broken
}

func (d *desk) Heads(_ context.Context, pool string, _ int) (account.Heads, error) {
	return account.Heads{First: slices.Clone(d.queue[pool]), Waiting: len(d.queue[pool])}, d.broken
}

func (d *desk) Wanted(pool string) { d.wanted = append(d.wanted, pool) }

func (d *desk) answer(_ context.Context, turn serving.Turn) (serving.Result, error) {
	id := turn.Request.Event.ID
	if d.during != nil {
		d.during(id)
	}
	d.lasting = append(d.lasting, turn.Lasting("other"))
	a := d.answers[id]
	if turn.Next {
		id += "*"
	}
	d.tried = append(d.tried, id)
	if a.result.Done {
		d.leave(turn.Request.Subject)
	}
	return a.result, a.err
}

// enter stores requests for a pool, each of another tenant, and appends them to its queue.
func (d *desk) enter(pool string, ids ...string) {
	d.t.Helper()
	for _, id := range ids {
		d.stored(pool, id, events.WaitingPoolEmpty)
		d.queue[pool] = append(d.queue[pool], account.Waiter{Runtime: "rt-" + id, Tenant: "ga-" + id, Request: id})
	}
}

func (d *desk) stored(pool, id string, reason events.WaitingReason) {
	d.t.Helper()
	d.storedOf("ga-"+id, pool, id, reason)
}

func (d *desk) storedOf(tenant, pool, id string, reason events.WaitingReason) {
	d.t.Helper()
	_, err := d.room.Enter(d.t.Context(), storage.WaitingRequest{
		Pool: pool, Reason: reason, Deadline: d.now.Add(time.Hour), Event: events.Event{
			Type: events.TypeProvision, ID: id, Source: "/keb", RuntimeID: "rt-" + id,
			Provision: &events.Provision{RuntimeID: "rt-" + id, GlobalAccountID: tenant, Plan: "aws"},
		},
	})
	if err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) leave(subject string) {
	d.t.Helper()
	if err := d.room.Leave(d.t.Context(), subject); err != nil {
		d.t.Fatal(err)
	}
}

// tries runs a round, and compares the requests that it tries with want.
func (d *desk) tries(want ...string) {
	d.t.Helper()
	d.tried = nil
	if err := d.Round(d.t.Context()); err != nil {
		d.t.Errorf("the round ends with %v", err)
	}
	if !slices.Equal(d.tried, want) {
		d.t.Errorf("tried are %v, want %v", d.tried, want)
	}
}

var (
	done    = answer{result: serving.Result{Done: true}}
	nothing = answer{}
	apart   = answer{result: serving.Result{Apart: true}}
	full    = answer{result: serving.Result{Full: true}}
)

func failing(f serving.Fault) answer {
	return answer{serving.Result{Fault: f}, errors.New("broken pipe")}
}

// The heads of a pool are tried in turn until one finds nothing: then the later ones would find nothing either.
func TestNextOnesClaimInTurn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answers []answer // of a, b and c
		want    []string
	}{
		"all are answered":                   {[]answer{done, done, done}, []string{"a*", "b*", "c*"}},
		"the second finds nothing":           {[]answer{done, nothing, done}, []string{"a*", "b*"}},
		"the first waits for another reason": {[]answer{apart, done, nothing}, []string{"a*", "b*", "c*"}},
		"the first lacks addresses alone":    {[]answer{full, done, nothing}, []string{"a*", "b*", "c*"}},
		"Gardener takes no claims":           {[]answer{failing(serving.Slow), done, done}, []string{"a*"}},
		"the first always fails by itself":   {[]answer{failing(serving.OwnDoing), done, nothing}, []string{"a*", "b*", "c*"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.enter("aws", "a", "b", "c")
			for i, id := range []string{"a", "b", "c"} {
				d.answers[id] = c.answers[i]
			}
			d.tries(c.want...)
			if told := len(d.retries) > 0; told != (c.answers[0].result.Fault == serving.OwnDoing) {
				t.Errorf("told are %v", d.retries)
			}
		})
	}
}

// An error of one request does not end the round. After several errors in a row, the round leaves the pool and
// reports that. The next round begins with the other requests of the pool.
func TestRequestsThatFailInARow(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.enter("aws", "a", "b", "c", "d")
	d.enter("gcp", "g")
	for _, id := range []string{"a", "b", "c"} {
		d.answers[id] = failing(serving.Other)
	}
	d.tries("a*", "b*", "c*", "g*")
	if !slices.Equal(d.retries, []string{"pool aws: serve c: broken pipe"}) {
		t.Errorf("told is %q", d.retries)
	}
	d.answers = map[string]answer{"d": done, "a": done, "b": done, "c": done}
	d.tries("d*", "a*", "b*", "c*")
}

// If requests for network blocks fail in a row, the round serves no further ones, but those that are due, and ends
// with the first error. The next round begins with the others.
func TestRequestsWithoutBlocksFailInARow(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.stored("aws", "due", events.WaitingPoolEmpty)
	d.answers["due"] = done
	d.now = d.now.Add(2 * time.Hour)
	for _, id := range []string{"a", "b", "c", "d"} {
		d.stored("aws", id, events.WaitingNetworkFull)
		d.answers[id] = failing(serving.Other)
	}
	d.Wakes.WakeNetwork()
	err := d.Round(t.Context())
	if err == nil || !strings.Contains(err.Error(), "serve a: broken pipe") || !slices.Equal(d.tried, []string{"a", "b", "c", "due", "d"}) {
		t.Errorf("tried are %v, %v", d.tried, err)
	}
	d.answers = map[string]answer{"d": done, "a": done, "b": done, "c": done}
	d.tries("d", "a", "b", "c")
}

// Many requests that lack the same do not end the search before one that lacks something else.
func TestRequestsThatLackTheSame(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for n := range 40 {
		id := fmt.Sprintf("a%d", n)
		d.stored("aws", id, events.WaitingNetworkFull)
		d.answers[id] = answer{result: serving.Result{Full: true, Lacks: "a 1"}}
	}
	d.stored("aws", "b", events.WaitingNetworkFull)
	d.answers["b"] = answer{result: serving.Result{Full: true, Lacks: "b 1"}}
	for range 3 { // each learns what 16 more of them lack
		d.Wakes.WakeNetwork()
		if err := d.Round(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	d.tried = nil
	d.Wakes.WakeNetwork()
	d.tries("a0", "b")
	d.answers["a0"], d.answers["a1"] = done, done // there is room for two again
	d.Wakes.WakeNetwork()
	d.tries("a0", "a1", "a2", "b")
}

// Requests that are due do not wait until all woken ones are served, of tenants or for network blocks.
func TestDueBesideManyWoken(t *testing.T) {
	t.Parallel()
	for reason, wake := range map[events.WaitingReason]func(*desk, string){
		events.WaitingUnavailable: func(d *desk, tenant string) { d.Wakes.WakeTenant("aws", tenant) },
		events.WaitingNetworkFull: func(d *desk, _ string) { d.Wakes.WakeNetwork() },
	} {
		t.Run(string(reason), func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.stored("aws", "due", events.WaitingPoolEmpty)
			d.now = d.now.Add(2 * time.Hour)
			for i := range 100 {
				id := fmt.Sprintf("w%d", i)
				d.stored("aws", id, reason)
				d.answers[id] = done
				wake(d, "ga-"+id)
			}
			d.answers["due"] = done
			if err := d.Round(t.Context()); err != nil || !slices.Contains(d.tried, "due") || len(d.tried) > 64 {
				t.Errorf("tried are %v, %v", d.tried, err)
			}
			if err := d.Serve(t.Context()); err != nil || len(d.tried) != 101 {
				t.Errorf("%d are tried, %v", len(d.tried), err)
			}
		})
	}
}

// A tenant with more requests than a round tries is served to the end at once, not some of them every second.
func TestManyOfOneTenant(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for i := range 100 {
		id := fmt.Sprintf("w%d", i)
		d.storedOf("ga-one", "aws", id, events.WaitingUnavailable)
		d.answers[id] = answer{}
	}
	for len(d.tried) < 100 { // they are new, and so due
		if err := d.Round(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 100 {
		d.answers[fmt.Sprintf("w%d", i)] = done
	}
	d.tried = nil
	d.Wakes.WakeTenant("aws", "ga-one")
	if err := d.Serve(t.Context()); err != nil || len(d.tried) != 100 {
		t.Errorf("%d are tried, %v", len(d.tried), err)
	}
}

// A round leaves a pool that is not built at once. The next round tries it again.
func TestPoolThatIsNotBuilt(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.enter("aws", "a", "b")
	d.enter("gcp", "g")
	d.answers["a"] = answer{serving.Result{Fault: serving.Rebuilding}, account.ErrRebuilt}
	d.tries("a*", "g*")
	d.broken = account.ErrNotBuilt
	d.tries()
	if !slices.Equal(d.wanted, []string{"aws"}) {
		t.Errorf("rebuilds are wanted of %v", d.wanted)
	}
	d.broken, d.answers = nil, map[string]answer{"a": done, "b": done}
	d.tries("a*", "b*")
}

// A pool that is not built keeps no request of another one waiting, whichever part of the round meets it.
func TestPoolThatIsNotBuiltBesideOthers(t *testing.T) {
	t.Parallel()
	rebuilding := answer{serving.Result{Fault: serving.Rebuilding}, account.ErrNotBuilt}
	for name, wake := range map[string]func(*desk){
		"network": func(d *desk) { d.Wakes.WakeNetwork() },
		"tenants": func(d *desk) {
			for _, id := range []string{"a", "b"} {
				d.Wakes.WakeTenant("aws", "ga-"+id)
			}
			d.Wakes.WakeTenant("gcp", "ga-g")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			for _, id := range []string{"a", "b"} {
				d.stored("aws", id, events.WaitingNetworkFull)
				d.answers[id] = rebuilding
			}
			d.stored("gcp", "g", events.WaitingNetworkFull)
			d.tries("a", "g") // they are new, and so due
			d.tries()
			wake(d)
			d.tries("a", "g")
			d.answers = map[string]answer{"a": done, "b": done, "g": done}
			d.now = d.now.Add(2 * time.Second)
			if err := d.Round(t.Context()); err != nil || !slices.Contains(d.tried, "a") || !slices.Contains(d.tried, "b") {
				t.Errorf("once it is built, tried are %v, %v", d.tried, err)
			}
		})
	}
}

// A pool that keeps failing is reported every 15 seconds, however many rounds find it so.
func TestPoolThatFailsIsToldOf(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.enter("aws", "a")
	d.broken = errors.New("broken pipe")
	for second := range 32 {
		if err := d.Round(t.Context()); err != nil {
			t.Fatal(err)
		}
		if want := 1 + second/15; len(d.retries) != want {
			t.Fatalf("after %d s it is told of %d times, want %d", second, len(d.retries), want)
		}
		d.now = d.now.Add(time.Second)
	}
	if d.retries[0] != "pool aws: broken pipe" {
		t.Errorf("told is %q", d.retries)
	}
}

// A round tries what was woken, and nothing else before it is due.
func TestRoundTriesWhatWasWoken(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.enter("aws", "a", "b")
	d.enter("gcp", "g")
	d.stored("aws", "n", events.WaitingNetworkFull)
	d.tries("a*", "g*", "n") // new ones wake their pools; n may not be in the queue
	d.tries()
	d.Wakes.WakePool("gcp")
	d.tries("g*")
	d.Wakes.WakeTenant("aws", "ga-b") // b may get room on its tenant's account, but not claim
	d.tries("a*", "b")
	d.Wakes.WakeNetwork()
	d.tries("a*", "g*", "n")
	d.Wakes.Wake()
	d.tries("a*", "g*", "n", "b") // the first of each tenant, once
	d.now = d.now.Add(time.Hour)  // a look is due, and all deadlines have passed
	d.tries("a*", "g*", "b", "n")
}

// After new rules a round tries each request that they lead elsewhere, even if it is not its tenant's first
// one. A result with Again sets when it is tried next.
func TestRoundTriesWhatGoesElsewhere(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.enter("aws", "a", "b")
	d.tries("a*")
	d.moved = "b"
	d.Wakes.WakePool("aws")
	d.tries("a*")
	d.answers["b"] = answer{result: serving.Result{Again: d.now.Add(time.Minute)}}
	d.Wakes.Wake()
	d.tries("a*", "b")
	d.tries()
	d.now = d.now.Add(time.Minute)
	d.tries("a*", "b")
}

// Serve returns when no wake is left.
func TestServeServesWhatWasWoken(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.enter("aws", "a")
	if err := d.Serve(t.Context()); err != nil || len(d.tried) > 0 {
		t.Errorf("without a wake %v are tried, %v", d.tried, err)
	}
	d.Wakes.Look()
	if err := d.Serve(t.Context()); err != nil || !slices.Equal(d.tried, []string{"a*"}) {
		t.Errorf("tried are %v, %v", d.tried, err)
	}
	if d.Wakes.Pending() {
		t.Error("a wake is left")
	}
}

// Requests that other workers have served leave the list, and are no longer reported.
func TestRequestsOfOthersLeave(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.enter("aws", "a", "b")
	d.tries("a*")
	if d.waits != 2 {
		t.Errorf("%d are told, want 2", d.waits)
	}
	d.leave(d.subjects.Waiting("aws", "ga-a", "rt-a", "a"))
	d.now = d.now.Add(time.Minute)
	d.tries("b*") // a look is due, which compares list and room
	if d.waits != 1 {
		t.Errorf("%d are told, want 1", d.waits)
	}
}

// TestRoomThatBeginsAnew: a look removes requests that have left the room, and later ones are read.
func TestRoomThatBeginsAnew(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.enter("aws", "a", "b")
	d.tries("a*")
	d.leave(d.subjects.Waiting("aws", "ga-a", "rt-a", "a"))
	d.leave(d.subjects.Waiting("aws", "ga-b", "rt-b", "b"))
	d.now = d.now.Add(time.Minute)
	d.queue = map[string][]account.Waiter{}
	d.tries()
	d.enter("aws", "c")
	d.tries("c*")
	if d.waits != 1 {
		t.Errorf("%d are told, want 1", d.waits)
	}
}

// If an operator has deleted the message of a tenant's next request, the others do not wait for it.
func TestNextRequestWithoutAMessage(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.stored("aws", "a", events.WaitingPoolEmpty)
	d.queue["aws"] = []account.Waiter{{Runtime: "rt-deleted", Tenant: "ga-a"}}
	d.tries()
	d.Wakes.Look()
	d.tries("a*")
}

// An attempt that is seen for longer than an attempt can run counts as lasting. It is remembered across rounds.
func TestHandlingThatLasts(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.enter("aws", "a")
	d.answers["a"] = answer{result: serving.Result{Left: []string{"other"}}}
	for _, c := range []struct {
		after time.Duration
		want  bool
	}{
		{0, false}, {serving.Budget, false}, {time.Second, true}, {time.Hour, false}, // forgotten meanwhile
	} {
		d.now, d.lasting = d.now.Add(c.after), nil
		d.Wakes.WakePool("aws")
		if err := d.Round(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(d.lasting) == 0 || d.lasting[0] != c.want {
			t.Errorf("after %s more it lasts: %v, want %t", c.after, d.lasting, c.want)
		}
	}
}

// Requests are served although the room also has messages that are no requests.
func TestServesBesideJunk(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, subject := range []string{d.subjects.Waiting("aws", "ga", "rt-w", "w"), d.subjects.Prefix() + ".waiting.x"} {
		if _, err := d.broker.Publish(t.Context(), &nats.Msg{Subject: subject, Data: []byte("hello")}); err != nil {
			t.Fatal(err)
		}
	}
	d.enter("aws", "a")
	d.tries("a*")
}

// Stop ends Run, and no request is tried after it.
func TestStop(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.enter("aws", "a")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		d.Run(t.Context())
	}()
	d.Stop()
	d.Stop() // twice is fine
	<-ended
	d.Wakes.Wake()
	if err := d.Round(t.Context()); err != nil || len(d.tried) > 0 {
		t.Errorf("after Stop %v are tried, %v", d.tried, err)
	}
}

// The clock may be ahead within one round only: what the round puts off by it is due once the clock is back.
func TestClockThatIsAheadWithinARound(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.storedOf("ga-a", "aws", "a", events.WaitingUnavailable)
	d.storedOf("ga-a", "aws", "b", events.WaitingUnavailable)
	d.queue["aws"] = []account.Waiter{{Runtime: "rt-a", Tenant: "ga-a"}, {Runtime: "rt-b", Tenant: "ga-a"}} // b is not its tenant's first
	d.answers["a"], d.answers["b"] = failing(serving.Other), failing(serving.Other)
	begin := d.now
	d.during = func(request string) {
		if request == "a" {
			d.now = begin.Add(5 * time.Hour)
		}
	}
	_ = d.Round(t.Context())
	d.during, d.now = nil, begin.Add(2*time.Hour)
	d.answers["a"], d.answers["b"] = nothing, done
	d.tries("a*", "b")
}
