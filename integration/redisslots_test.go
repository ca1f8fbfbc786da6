package integration_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/cmd/daemon"
	"github.com/hap-worker/hap-worker/cmd/hapctl/app"
	"github.com/hap-worker/hap-worker/counters"
	"github.com/hap-worker/hap-worker/counters/connection"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/requests"
	"github.com/hap-worker/hap-worker/integration/checker"
)

// slotPlans are the pools that the load is spread over.
var slotPlans = []string{"aws", "azure", "gcp"}

// TestTimedSlotsMove moves the slots of a Redis Cluster between its primaries under load, as a
// resharding does: key by key, so that scripts meet MOVED, ASK and TRYAGAIN; then one slot has no owner
// for a while (CLUSTERDOWN). Each event has one answer, and Redis counts as the ledger says.
// How long no event was answered stands in docs/redis.md.
func TestTimedSlotsMove(t *testing.T) {
	t.Parallel()
	requireRedis(t)
	c := threePrimaries(t)
	const tenants = 4
	l := newLandscape(t, oneAccountRules, roomyAccounts(2*tenants))
	l.edit(l.stack.Redis.URL(), strings.Join(c.urls(), ",")+"\n  username: hap-worker\n  passwordFile: "+c.password)
	workers := []*inProcess{l.work(daemon.Options{}), l.work(daemon.Options{})}
	load := l.steadyLoad(tenants)
	load.further(t, slotPlans...)

	load.during(t, "the slot of a pool moves, slowly", func() {
		move := c.moves(t, c.slotOf(t, "hap:{aws}:meta"))
		before := c.errors(t)
		move.begin()
		for move.key() {
			load.further(t, "azure", "gcp")
			c.awaitErrors(t, before, "TRYAGAIN")
		}
		c.awaitErrors(t, before, "ASK") // the source has none of the keys any more
		move.end()
		c.awaitErrors(t, before, "MOVED")
		c.awaitBuilt(t)
	})
	load.during(t, "the slot of a bucket moves", func() {
		move := c.moves(t, c.slotOf(t, "hap:{rt:00}:meta"))
		move.begin()
		move.rest()
		c.awaitBuilt(t)
	})
	for range c.admins { // until each slot is where it was
		load.during(t, "all slots move, one after the other", func() {
			for _, slot := range c.slotsInUse(t) {
				move := c.moves(t, slot)
				move.begin()
				move.rest()
			}
			c.awaitBuilt(t)
		})
	}
	load.during(t, "a slot has no owner", func() {
		before, built, down := c.errors(t), c.awaitBuilt(t), time.Now()
		back := c.disown(t, c.slotOf(t, "hap:{azure}:meta"))
		c.awaitErrors(t, before, "CLUSTERDOWN")
		for _, w := range workers {
			eventually(l.ctx, t, func() error {
				if failing, err := w.readyz(); err == nil || !slices.Contains(failing, "redis") {
					return fmt.Errorf("without Redis /readyz says that %v fails: %w", failing, err)
				}
				return nil
			})
		}
		back()
		t.Logf("the slot had no owner for %.1fs", time.Since(down).Seconds())
		load.further(t, slotPlans...)
		if now := c.awaitBuilt(t); !maps.Equal(now, built) {
			t.Errorf("what lost nothing was rebuilt: %v, before %v", now, built)
		}
	})
	load.end(t)

	for _, refused := range c.refused(t) {
		t.Error(refused)
	}
	for n, w := range workers {
		t.Logf("worker %d: %s epochs were not in force", n+1, w.metric(`hap_epoch_checks_total{result="other"}`))
		for _, line := range regexp.MustCompile(`(?m)^.*"(rebuilt|rebuild failed)".*$`).FindAllString(w.log.String(), -1) {
			t.Log(line)
		}
	}
	l.countedAlike(t, c, load)
}

// countedAlike fails the test where ledger, labels and the cluster do not say the same.
func (l *landscape) countedAlike(t *testing.T, c *primaries, load *steadyLoad) {
	t.Helper()
	l.awaitSettled()
	if n, err := l.publisher.left(events.StreamDead); err != nil || n > 0 {
		t.Errorf("%d dead letters, %v", n, err)
	}
	from := sources(t, l.stack, l.js, l.subjects)
	store, err := counters.Open(connection.Options{URLs: c.urls()}, "")
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	from.Counters = store
	facts, err := checker.Read(l.ctx, from)
	if err != nil {
		t.Fatal(err)
	}
	facts.Published, facts.Watched = load.published, &checker.Watched{Stored: load.stored}
	for _, bad := range append(facts.Violations(checker.Terms{OneAccount: true}), facts.Drift()...) {
		t.Error(bad)
	}
	var out, talk bytes.Buffer
	if code := app.Run(l.ctx, []string{"counters", "verify", "--config", l.stack.Config}, strings.NewReader(""), &out, &talk); code != 0 {
		t.Errorf("hapctl counters verify ends with %d:\n%s%s", code, out.String(), talk.String())
	}
}

// steadyLoad provisions and deprovisions without end, and has all replies that are stored.
type steadyLoad struct {
	ctx  context.Context
	stop func() // no new requests
	all  sync.WaitGroup

	mu        sync.Mutex
	failed    []error
	published map[string]map[string]string
	stored    []events.Stored
}

// steadyLoad has each tenant ask in each pool, one request at a time. A first runtime stays, so that
// the tenant keeps its account.
func (l *landscape) steadyLoad(tenants int) *steadyLoad {
	l.t.Helper()
	asking, stop := context.WithCancel(l.ctx)
	load := &steadyLoad{ctx: l.ctx, stop: stop, published: map[string]map[string]string{}}
	consumer, err := l.js.OrderedConsumer(l.ctx, events.StreamReplies, jetstream.OrderedConsumerConfig{})
	if err != nil {
		l.t.Fatal(err)
	}
	following, err := consumer.Consume(load.reply)
	if err != nil {
		l.t.Fatal(err)
	}
	client, err := requests.NewClient(l.nc, requests.ClientOptions{Source: "/integration"})
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() {
		stop()
		client.Close()
		load.all.Wait()
		following.Stop()
	})
	for tenant := range tenants {
		for _, plan := range slotPlans {
			load.all.Go(func() {
				for n := 0; asking.Err() == nil; n++ {
					e := askPlan(fmt.Sprintf("%s-%d-%04d", plan, tenant, n), fmt.Sprintf("ga-%d", tenant), plan)
					all := []events.Event{e}
					if n > 0 {
						all = append(all, goes(e.RuntimeID, e.Provision.GlobalAccountID))
					}
					for _, e := range all {
						if err := load.ask(client, e, l.subjects); err != nil {
							stop()
							return
						}
					}
				}
			})
		}
	}
	return load
}

// ask publishes an event once and waits for its answer, however long it takes.
func (s *steadyLoad) ask(client *requests.Client, e events.Event, subjects events.Subjects) error {
	s.mu.Lock()
	if s.published[e.RuntimeID] == nil {
		s.published[e.RuntimeID] = map[string]string{}
	}
	s.published[e.RuntimeID][e.ID] = e.ReplySubject(subjects)
	s.mu.Unlock()
	r, err := client.Ask(s.ctx, e)
	if err == nil && r.Status != events.StatusAssigned && r.Status != events.StatusReleased {
		err = fmt.Errorf("%s %+v", r.Status, r.Error)
	}
	if err != nil {
		err = fmt.Errorf("the %s of %s: %w", e.Type, e.RuntimeID, err)
		s.mu.Lock()
		s.failed = append(s.failed, err)
		s.mu.Unlock()
	}
	return err
}

func (s *steadyLoad) reply(msg jetstream.Msg) {
	meta, err := msg.Metadata()
	var r events.Reply
	if err == nil {
		r, err = events.DecodeReply(msg.Data())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.failed = append(s.failed, fmt.Errorf("a reply on %s: %w", msg.Subject(), err))
	} else if r.RuntimeID != "" { // the record of epochs is no reply
		s.stored = append(s.stored, events.Stored{Reply: r, Subject: msg.Subject(), Sequence: meta.Sequence.Stream, Time: meta.Timestamp})
	}
}

// answers are the times of the final replies, in one pool, or in all with "".
func (s *steadyLoad) answers(plan string) (at []time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.stored {
		if r.Reply.Final() && strings.HasPrefix(r.Reply.RuntimeID, plan) {
			at = append(at, r.Time)
		}
	}
	return at
}

// further returns when each of the pools has had further answers.
func (s *steadyLoad) further(t *testing.T, plans ...string) {
	t.Helper()
	const enough = 10
	before := map[string]int{}
	for _, plan := range plans {
		before[plan] = len(s.answers(plan))
	}
	ctx, cancel := context.WithTimeout(s.ctx, 3*time.Minute)
	defer cancel()
	eventually(ctx, t, func() error {
		for _, plan := range plans {
			if now := len(s.answers(plan)); now < before[plan]+enough {
				return fmt.Errorf("%s has %d answers, %d before", plan, now, before[plan])
			}
		}
		return nil
	})
}

// during does something under load, and logs for how long no request was answered meanwhile and
// until all pools have answers again.
func (s *steadyLoad) during(t *testing.T, what string, do func()) {
	t.Helper()
	begin := time.Now()
	do()
	done := time.Now()
	s.further(t, slotPlans...)
	said := []string{fmt.Sprintf("at all %.1fs", s.longest("", begin).Seconds())}
	for _, plan := range slotPlans {
		said = append(said, fmt.Sprintf("in %s %.1fs", plan, s.longest(plan, begin).Seconds()))
	}
	t.Logf("%s (%.1fs): without an answer %s", what, done.Sub(begin).Seconds(), strings.Join(said, ", "))
}

// longest is the longest time without an answer since then.
func (s *steadyLoad) longest(plan string, since time.Time) (longest time.Duration) {
	last := since
	for _, at := range s.answers(plan) {
		if at.After(since) {
			longest, last = max(longest, at.Sub(last)), at
		}
	}
	return longest
}

// end ends the load once what was asked is answered.
func (s *steadyLoad) end(t *testing.T) {
	t.Helper()
	s.stop()
	s.all.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, err := range s.failed {
		t.Error(err)
	}
	t.Logf("%d runtimes, %d replies", len(s.published), len(s.stored))
}
