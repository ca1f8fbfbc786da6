package history

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/hap-worker/hap-worker/ledger/storage"
)

// Ledger reads the replies: package storage.
type Ledger interface {
	// End returns the highest sequence that the ledger has ever assigned to a message.
	End(ctx context.Context) (uint64, error)
	// FactsAfter visits the replies that were stored after a sequence, including those to releases, but not sealed ones.
	FactsAfter(ctx context.Context, sequence uint64, visit func(storage.Fact) error) error
}

const (
	keepLast = 100 // replies that Last can return
	// patience is how long Look waits for the end of the current read.
	patience = 200 * time.Millisecond
	// readWithin is the time-out of one read. The next Look goes on where it ended.
	readWithin = 5 * time.Minute
)

// Follower stores the summaries of the ledger. It is safe for concurrent use.
type Follower struct {
	ledger Ledger
	now    func() time.Time
	ctx    context.Context // the end of ctx ends all reads

	mu        sync.Mutex
	reading   chan struct{} // closed at the end of the current read; nil if there is none
	progress  Progress
	complete  uint64 // the ledger's end at the last read that succeeded; above progress.Read if sealed replies are last
	accounts  trails
	tenants   trails
	occupancy *Occupancy
	last      [keepLast]storage.Fact
	next      int // where the next reply goes in last
	slots     [Slots]Rate
}

// Progress says how far the ledger was read.
type Progress struct {
	Done  bool      // the end was reached at least once
	Whole time.Time // when the end was reached last
	Read  uint64    // sequence of the last reply that was read
	End   uint64    // sequence of the ledger's end when the last read began
	Err   error     // of the last read
}

// New returns a follower that has read nothing. With a nil ledger it never reads. Its reads end with ctx.
func New(ctx context.Context, ledger Ledger, now func() time.Time) *Follower {
	f := &Follower{ledger: ledger, now: now, ctx: ctx}
	f.forget()
	return f
}

func (f *Follower) forget() {
	f.progress, f.complete = Progress{}, 0
	f.accounts, f.tenants = trails{}, trails{}
	f.occupancy = NewOccupancy(f.now, Day(), Month())
	f.last, f.next, f.slots = [keepLast]storage.Fact{}, 0, [Slots]Rate{}
}

// Look starts a read, or joins the current one, and returns the progress. It waits for the end of the read,
// but at most patience; the read then continues in the background.
func (f *Follower) Look(ctx context.Context) Progress {
	f.mu.Lock()
	if f.ledger == nil {
		defer f.mu.Unlock()
		return f.progress
	}
	if f.reading == nil && f.ctx.Err() == nil {
		f.reading = make(chan struct{})
		go f.read(f.reading)
	}
	reading := f.reading
	f.mu.Unlock()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-reading:
	case <-timer.C:
	case <-ctx.Done():
	case <-f.ctx.Done():
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.progress
}

func (f *Follower) read(done chan struct{}) {
	ctx, cancel := context.WithTimeout(f.ctx, readWithin)
	defer cancel()
	err := f.readOn(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.progress.Err, f.reading = err, nil
	if err == nil {
		f.progress.Done, f.progress.Whole = true, f.now()
	}
	close(done)
}

func (f *Follower) readOn(ctx context.Context) error {
	end, err := f.ledger.End(ctx)
	if err != nil {
		return err
	}
	f.mu.Lock()
	if end < max(f.progress.Read, f.complete) { // the stream was recreated
		f.forget()
	}
	f.progress.End = end
	from, complete := f.progress.Read, f.complete
	f.mu.Unlock()
	if end == complete {
		return nil
	}
	err = f.ledger.FactsAfter(ctx, from, func(fact storage.Fact) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.take(fact)
		return nil
	})
	if err == nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.complete = end
	}
	return err
}

// take adds a reply to the summaries. It ignores a message that cannot be read (Foreign). Replies have to come
// in the order of the stream.
func (f *Follower) take(fact storage.Fact) {
	if fact.Foreign != nil {
		return
	}
	f.progress.Read = max(f.progress.Read, fact.Position)
	if !f.occupancy.Take(fact) {
		f.accounts.add(fact.Binding, fact.Position)
	}
	f.tenants.add(fact.GlobalAccountID, fact.Position)
	f.last[f.next] = fact
	f.next = (f.next + 1) % keepLast
	f.rate(fact)
}

// Last returns up to n of the last replies, newest first.
func (f *Follower) Last(n int) []storage.Fact {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []storage.Fact
	for i := 1; i <= keepLast && len(out) < n; i++ {
		fact := f.last[(f.next-i+keepLast)%keepLast]
		if fact.Position == 0 {
			break
		}
		out = append(out, fact)
	}
	return out
}

// Account returns the sequences of up to n of the last replies about an account, newest first, and the number of
// older ones. It leaves out replies that repeat a decision.
func (f *Follower) Account(name string, n int) (sequences []uint64, more int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.accounts.of(name, n)
}

// Tenant returns the sequences of up to n of the last replies to a tenant, newest first, and the number of older ones.
func (f *Follower) Tenant(name string, n int) (sequences []uint64, more int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tenants.of(name, n)
}

// Tenants returns up to n tenants whose name contains a text. The one whose name is the text comes first.
func (f *Follower) Tenants(text string, n int) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var found []string
	if _, exact := f.tenants[text]; exact {
		found = append(found, text)
	}
	for name := range f.tenants {
		if len(found) < n && name != text && strings.Contains(name, text) {
			found = append(found, name)
		}
	}
	return found
}
