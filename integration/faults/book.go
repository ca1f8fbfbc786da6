package faults

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/integration/checker"
)

// The states of a runtime as its broker sees them.
const (
	asked    = "asked"
	assigned = "assigned"
	refused  = "refused"
	leaving  = "leaving"
)

// runtime is a cluster that the broker wants, has or had.
type runtime struct {
	id, tenant string
	wish       wish
	state      string
	requests   int
	first      events.Event  // the first provision
	last       events.Event  // the last deprovision
	cluster    string        // the binding of its Shoot, "" for none
	made       chan struct{} // closed once the Shoot is created; nil without a Shoot
}

// book records what the publishers did and saw.
type book struct {
	mu         sync.Mutex
	random     *rand.Rand
	runtimes   map[string]*runtime
	order      []*runtime
	published  map[string]map[string]string
	since      map[string]time.Time // by reply subject: just before its event was first published
	took       []time.Duration      // from the first publish to the final reply
	unreadable []uint64
	buried     map[uint64]bool // sequences of events whose dead letters may be purged
	departed   map[string]time.Time
	clusters   map[string]*checker.Cluster
	labels     map[string][]checker.Label
	stored     []events.Stored
	counts     map[string]int
	failures   []string
}

func newBook(seed uint64) *book {
	return &book{
		random: rand.New(rand.NewPCG(seed, 3)), runtimes: map[string]*runtime{}, published: map[string]map[string]string{},
		since: map[string]time.Time{}, buried: map[uint64]bool{}, departed: map[string]time.Time{}, clusters: map[string]*checker.Cluster{},
		labels: map[string][]checker.Label{}, counts: map[string]int{},
	}
}

// dice returns a number below n, drawn from the seed.
func (b *book) dice(n int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.random.IntN(n)
}

// between returns a random duration from least to most, in milliseconds; most itself is never drawn.
func (b *book) between(least, most int) time.Duration {
	return time.Duration(least+b.dice(most-least)) * time.Millisecond
}

func (b *book) count(what string) { b.add(what, 1) }

func (b *book) add(what string, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.counts[what] += n
}

// failed records an event that must not happen.
func (b *book) failed(what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures = append(b.failures, what)
}

// wrote records an event that is about to be published. owner is the runtime's id, or names the binding of a
// release.
func (b *book) wrote(owner string, e events.Event, subject string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.published[owner] == nil {
		b.published[owner] = map[string]string{}
	}
	b.published[owner][e.ID] = subject
	if b.since[subject].IsZero() {
		b.since[subject] = time.Now()
	}
	if e.Deprovision != nil && b.departed[owner].IsZero() {
		b.departed[owner] = time.Now()
	}
}

// some returns a random runtime that fits, nil if none does.
func (b *book) some(fits func(*runtime) bool) *runtime {
	b.mu.Lock()
	defer b.mu.Unlock()
	var found []*runtime
	for _, rt := range b.order {
		if fits(rt) {
			found = append(found, rt)
		}
	}
	if len(found) == 0 {
		return nil
	}
	return found[b.random.IntN(len(found))]
}

func (b *book) inState(state string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, rt := range b.order {
		if rt.state == state {
			n++
		}
	}
	return n
}

// watched returns a copy of the observations.
func (b *book) watched() *checker.Watched {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := &checker.Watched{Labels: map[string][]checker.Label{}, Stored: slices.Clone(b.stored), Departed: maps.Clone(b.departed)}
	for name, labels := range b.labels {
		w.Labels[name] = slices.Clone(labels)
	}
	for _, c := range b.clusters {
		w.Clusters = append(w.Clusters, *c)
	}
	return w
}

// copied returns copies of the published events and of the sequences of unreadable messages.
func (b *book) copied() (published map[string]map[string]string, unreadable []uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	published = map[string]map[string]string{}
	for owner, requests := range b.published {
		published[owner] = maps.Clone(requests)
	}
	return published, slices.Clone(b.unreadable)
}

// pause waits for d. It returns false if ctx ends before.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
