// Package waitlist keeps what a worker knows of the requests that wait: where each lies, in
// which order they came, and when each is due. It has no I/O.
package waitlist

import (
	"container/heap"
	"time"

	"github.com/hap-worker/hap-worker/events"
)

// Entry is a request that waits, without its event.
type Entry struct {
	Subject  string
	Pool     string
	Tenant   string
	Runtime  string
	Reason   events.WaitingReason
	Sequence uint64 // of the stream
	Since    time.Time
	Deadline time.Time

	due  time.Time // when it is looked at whatever else happens
	at   int       // in the heap
	gone bool
}

// Gone reports whether the entry was removed.
func (e *Entry) Gone() bool { return e.gone }

// List is the entries. It is for one goroutine.
type List struct {
	bySubject map[string]*Entry
	log       queue // all, as they came
	pools     map[string]*pool
	dues      dues
	cursor    int // in the log, of Next
}

// pool is the entries of one pool.
type pool struct {
	size, network int
	tenants       map[string]*queue
	runtimes      map[string][]*Entry
}

// New returns a list without entries.
func New() *List { return &List{bySubject: map[string]*Entry{}, pools: map[string]*pool{}} }

// Len is the number of entries.
func (l *List) Len() int { return len(l.bySubject) }

// Put adds a request, in place of the one on its subject. The same message again changes nothing.
func (l *List) Put(r events.WaitingRequest) *Entry {
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

// Remove takes the entry on a subject out; it is no error where there is none.
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
		l.cursor = 0 // the places in the log have changed
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

// Retain removes what is on none of the subjects, and reports whether all subjects are known
// or were counted as unreadable.
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

// Size is how many requests wait for a pool, and how many of these for network blocks alone.
func (l *List) Size(pool string) (all, network int) {
	if p := l.pools[pool]; p != nil {
		return p.size, p.network
	}
	return 0, 0
}

// Pools are those that requests wait for, that of the oldest request first.
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

// OfRuntime are the requests of a runtime for a pool, oldest first.
func (l *List) OfRuntime(pool, runtime string) []*Entry {
	if p := l.pools[pool]; p != nil {
		return p.runtimes[runtime]
	}
	return nil
}

// First is a tenant's oldest request for a pool, nil for none.
func (l *List) First(pool, tenant string) *Entry {
	if p := l.pools[pool]; p != nil && p.tenants[tenant] != nil {
		return p.tenants[tenant].first()
	}
	return nil
}

// Following is the next request of the same tenant for the same pool, nil for none.
func (l *List) Following(e *Entry) *Entry {
	if p := l.pools[e.Pool]; p != nil && p.tenants[e.Tenant] != nil {
		return p.tenants[e.Tenant].after(e)
	}
	return nil
}

// All calls visit with the entries as they came until it returns false.
func (l *List) All(visit func(*Entry) bool) {
	for _, e := range l.log.entries {
		if !e.gone && !visit(e) {
			return
		}
	}
}

// Next returns up to so many entries that are the first of their tenant and pool, or lack
// network blocks, after those
// of the call before, and begins anew at the end.
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

// Due returns an entry that is due, the one that has been for longest, nil for none.
func (l *List) Due(now time.Time) *Entry {
	if len(l.dues) == 0 || l.dues[0].due.After(now) {
		return nil
	}
	return l.dues[0]
}

// NextDue is when the next entry is due, false without entries.
func (l *List) NextDue() (time.Time, bool) {
	if len(l.dues) == 0 {
		return time.Time{}, false
	}
	return l.dues[0].due, true
}

// Back makes due now what is due after its deadline and after now: it was put off by a clock that has gone
// back since.
func (l *List) Back(now time.Time) {
	l.All(func(e *Entry) bool {
		if e.due.After(e.Deadline) && e.due.After(now) {
			l.LookAt(e, now)
		}
		return true
	})
}

// LookAt makes an entry due at a time. One before its deadline is followed by that; one
// after it stays.
func (l *List) LookAt(e *Entry, at time.Time) {
	if !e.gone {
		e.due = at
		heap.Fix(&l.dues, e.at)
	}
}
