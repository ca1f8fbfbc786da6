// Package waitlist is a worker's index of the waiting requests: by pool, tenant and runtime, in the order in
// which they came, and by the time when each is due. It has no I/O.
package waitlist

import (
	"container/heap"
	"time"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

// Entry is a waiting request without its event.
type Entry struct {
	Subject  string
	Pool     string
	Tenant   string
	Runtime  string
	Reason   events.WaitingReason
	Sequence uint64 // of the stream
	Since    time.Time
	Deadline time.Time
	Lacks    string // for which injection of a network rule the last attempt found no room, "" if it is unknown

	due  time.Time // when it is tried even if nothing has changed that could serve it
	at   int       // index in the heap
	gone bool
}

// Gone reports whether the entry was removed.
func (e *Entry) Gone() bool { return e.gone }

// List is the index. It is not safe for concurrent use.
type List struct {
	bySubject map[string]*Entry
	log       queue // all entries
	pools     map[string]*pool
	dues      dues
	cursor    int // index in the log where Next goes on
}

// pool indexes the entries of one pool.
type pool struct {
	size, network int
	tenants       map[string]*queue
	runtimes      map[string][]*Entry
}

// New returns a list without entries.
func New() *List { return &List{bySubject: map[string]*Entry{}, pools: map[string]*pool{}} }

// Len returns the number of entries.
func (l *List) Len() int { return len(l.bySubject) }

// Put adds an entry for a request, and returns it. The entry is due at the request's deadline. It replaces
// the entry of the same subject, unless that entry has the same sequence: then Put returns that one.
func (l *List) Put(r storage.WaitingRequest) *Entry {
	if e := l.bySubject[r.Subject]; e != nil && e.Sequence == r.Sequence {
		return e
	}
	l.Remove(r.Subject)
	e := &Entry{
		Subject: r.Subject, Pool: r.Pool, Tenant: r.Event.Provision.GlobalAccountID, Runtime: r.Event.RuntimeID,
		Reason: r.Reason, Sequence: r.Sequence, Since: r.Since, Deadline: r.Deadline, due: r.Deadline,
	}
	p := l.pools[e.Pool]
	if p == nil {
		p = &pool{tenants: map[string]*queue{}, runtimes: map[string][]*Entry{}}
		l.pools[e.Pool] = p
	}
	if p.tenants[e.Tenant] == nil {
		p.tenants[e.Tenant] = &queue{}
	}
	p.size++
	if e.Reason.Network() {
		p.network++
	}
	p.tenants[e.Tenant].add(e)
	p.runtimes[e.Runtime] = append(p.runtimes[e.Runtime], e)
	l.bySubject[e.Subject] = e
	l.log.add(e)
	heap.Push(&l.dues, e)
	return e
}

// Remove removes the entry of a subject, if there is one.
func (l *List) Remove(subject string) {
	e := l.bySubject[subject]
	if e == nil {
		return
	}
	delete(l.bySubject, subject)
	e.gone = true
	heap.Remove(&l.dues, e.at)
	p := l.pools[e.Pool]
	p.size--
	if e.Reason.Network() {
		p.network--
	}
	if others := without(p.runtimes[e.Runtime], e); len(others) > 0 {
		p.runtimes[e.Runtime] = others
	} else {
		delete(p.runtimes, e.Runtime)
	}
	if p.tenants[e.Tenant].lose(); p.tenants[e.Tenant].empty() {
		delete(p.tenants, e.Tenant)
	}
	if p.size == 0 {
		delete(l.pools, e.Pool)
	}
	if l.log.lose() {
		l.cursor = 0 // the log was compacted
	}
}

func without(entries []*Entry, gone *Entry) []*Entry {
	for i, e := range entries {
		if e == gone {
			return append(entries[:i], entries[i+1:]...)
		}
	}
	return entries
}

// Retain removes the entries whose subject is not in subjects, or is there with the value 0. It returns the
// number of subjects without an entry.
func (l *List) Retain(subjects map[string]uint64) (unknown int) {
	for subject := range l.bySubject {
		if subjects[subject] == 0 {
			l.Remove(subject)
		}
	}
	return len(subjects) - l.Len()
}

// Has reports whether any request waits for a pool.
func (l *List) Has(pool string) bool { return l.pools[pool] != nil }

// Size returns the number of requests for a pool, and how many of these wait for network blocks.
func (l *List) Size(pool string) (all, network int) {
	if p := l.pools[pool]; p != nil {
		return p.size, p.network
	}
	return 0, 0
}

// Pools returns the pools with entries, ordered by the oldest entry of each.
func (l *List) Pools() []string {
	var names []string
	met := make(map[string]bool, len(l.pools))
	for _, e := range l.log.entries {
		if len(names) == len(l.pools) {
			break
		}
		if !e.gone && !met[e.Pool] {
			met[e.Pool] = true
			names = append(names, e.Pool)
		}
	}
	return names
}

// OfRuntime returns the requests of a runtime for a pool, oldest first. The slice is valid until the list changes.
func (l *List) OfRuntime(pool, runtime string) []*Entry {
	if p := l.pools[pool]; p != nil {
		return p.runtimes[runtime]
	}
	return nil
}

// First returns a tenant's oldest request for a pool, or nil.
func (l *List) First(pool, tenant string) *Entry {
	if p := l.pools[pool]; p != nil && p.tenants[tenant] != nil {
		return p.tenants[tenant].first()
	}
	return nil
}

// Following returns the next request of the same tenant for the same pool, or nil.
func (l *List) Following(e *Entry) *Entry {
	if p := l.pools[e.Pool]; p != nil && p.tenants[e.Tenant] != nil {
		return p.tenants[e.Tenant].after(e)
	}
	return nil
}

// All calls visit for each entry, oldest first, until visit returns false.
func (l *List) All(visit func(*Entry) bool) {
	for _, e := range l.log.entries {
		if !e.gone && !visit(e) {
			return
		}
	}
}

// Next returns up to most entries that are the first of their tenant and pool, or wait for network blocks. It goes on
// where the previous call stopped, and wraps around; after a compaction of the log it begins with the oldest entry.
func (l *List) Next(most int) (found []*Entry) {
	for range l.log.entries {
		if len(found) == most {
			break
		}
		if l.cursor >= len(l.log.entries) {
			l.cursor = 0
		}
		e := l.log.entries[l.cursor]
		l.cursor++
		if !e.gone && (e.Reason.Network() || l.First(e.Pool, e.Tenant) == e) {
			found = append(found, e)
		}
	}
	return found
}

// Due returns the entry that has been due for longest, or nil if none is due.
func (l *List) Due(now time.Time) *Entry {
	if len(l.dues) == 0 || l.dues[0].due.After(now) {
		return nil
	}
	return l.dues[0]
}

// NextDue returns when the next entry is due, and false if there are no entries.
func (l *List) NextDue() (time.Time, bool) {
	if len(l.dues) == 0 {
		return time.Time{}, false
	}
	return l.dues[0].due, true
}

// Back is called after the clock has been set back to now. It makes the entries due now that are due later than both
// now and their deadline, since the old clock may have set that time.
func (l *List) Back(now time.Time) {
	l.All(func(e *Entry) bool {
		if e.due.After(e.Deadline) && e.due.After(now) {
			l.LookAt(e, now)
		}
		return true
	})
}

// LookAt sets the time at which an entry is due, instead of its deadline. It ignores a removed entry.
func (l *List) LookAt(e *Entry, at time.Time) {
	if !e.gone {
		e.due = at
		heap.Fix(&l.dues, e.at)
	}
}
