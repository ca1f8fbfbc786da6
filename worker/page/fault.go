package page

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hap-worker/hap-worker/worker/loop"
)

// Part is a dependency of the worker, or the worker itself.
type Part string

// The parts. Worker stands for the worker itself: it is starting or takes no events, or a read took too long.
const (
	NATS     Part = "NATS"
	Redis    Part = "Redis"
	Gardener Part = "Gardener"
	Ranges   Part = "Network ranges"
	Worker   Part = "This worker"
)

// parts lists the parts in the order in which the page names them. Stops says what stops while a part fails.
var parts = []struct {
	Part  Part
	Stops string
}{
	{NATS, "no event is taken and no answer is stored. Events that NATS has are kept; publishers repeat the others."},
	{Redis, "nothing is decided. Every event stays in its stream and is answered afterwards."},
	{Gardener, "no account is newly claimed, marked dirty or returned. Tenants whose accounts have room are served."},
	{Ranges, "clusters that need a network range wait."},
	{Worker, "this worker takes no events. Other workers do."},
}

const (
	// checkWithin is the time limit of one check.
	checkWithin = 2 * time.Second
	// longestFault is the length in bytes to which shown errors and names from outside are cut.
	longestFault = 300
)

// fault is a failure of a part.
type fault struct {
	Part  Part
	Says  string // what fails
	Only  string // what stops, if it is less than everything that needs the part
	Err   string
	Since time.Time
}

// Stops says what stops until the part works again.
func (f fault) Stops() string { return cmp.Or(f.Only, parts[f.Part.place()].Stops) }

func (p Part) place() int {
	for i := range parts {
		if parts[i].Part == p {
			return i
		}
	}
	return len(parts) - 1
}

// faults collects faults. add, put and check are safe for concurrent use.
type faults struct {
	mu  sync.Mutex
	all []fault
}

func (f *faults) add(part Part, says string, err error) {
	if err == nil {
		return
	}
	f.put(fault{Part: part, Says: says}, err)
}

// put adds a fault with its error.
func (f *faults) put(one fault, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	one.Err = shortened(err.Error())
	f.all = append(f.all, one)
}

// shortened cuts a longer text from outside to longestFault bytes, and appends an ellipsis.
func shortened(text string) string {
	if len(text) > longestFault {
		return strings.ToValidUTF8(text[:longestFault], "") + "…"
	}
	return text
}

// sorted returns one fault for each part that fails, in the order of parts: of several faults of a part, the one
// whose Says is first in alphabetical order.
func (f *faults) sorted() []fault {
	slices.SortStableFunc(f.all, func(a, b fault) int {
		return cmp.Or(cmp.Compare(a.Part.place(), b.Part.place()), cmp.Compare(a.Says, b.Says))
	})
	return slices.CompactFunc(f.all, func(a, b fault) bool { return a.Part == b.Part })
}

// check runs all checks concurrently.
func (f *faults) check(ctx context.Context, checks []Check) {
	var looking sync.WaitGroup
	for _, c := range checks {
		looking.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, checkWithin)
			defer cancel()
			f.add(c.Part, doesNotWork[c.Part], c.Run(ctx))
		})
	}
	looking.Wait()
}

// doesNotWork is the text of a failed check.
var doesNotWork = map[Part]string{
	NATS: "cannot be reached", Redis: "cannot be used", Gardener: "does not answer", Worker: "is not at work",
}

// watchEvery is the pause between two rounds of Watch.
const watchEvery = 10 * time.Second

// outages stores since when parts fail. A part that works again is forgotten.
type outages struct {
	mu      sync.Mutex
	since   map[Part]time.Time // when each part began to fail, as readings for viewers found it
	watched map[Part]time.Time // likewise, as the checks of Watch found it
	read    time.Time          // of the last reading
}

// date sets Since of the faults of a reading. For a part that also failed in the reading before, Since stays. For
// another part it is the time at which Watch first saw the failure, or now if Watch has not seen it.
func (o *outages) date(faults []fault, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	failing := map[Part]time.Time{}
	for i := range faults {
		since, known := o.since[faults[i].Part]
		if !known {
			since, known = o.watched[faults[i].Part]
		}
		if !known {
			since = now
		}
		failing[faults[i].Part], faults[i].Since = since, since
	}
	o.since, o.read = failing, now
}

// watch remembers the faults that the checks of Watch have found. It forgets the times that readings set if
// there was no reading for two rounds of Watch: a part may have worked in between.
func (o *outages) watch(faults []fault, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	failing := map[Part]time.Time{}
	for _, f := range faults {
		since, known := o.watched[f.Part]
		if !known {
			since = now
		}
		failing[f.Part] = since
	}
	o.watched = failing
	if now.Sub(o.read) > 2*watchEvery {
		o.since = nil
	}
}

// Watch runs the checks until ctx ends, so that the first viewer of an outage reads when it began.
func (p *Page) Watch(ctx context.Context) {
	loop.Run(ctx, loop.Options{Every: watchEvery, Jitter: 0.1, Start: loop.AtOnce}, func(ctx context.Context) error {
		p.look(ctx)
		return nil
	})
}

func (p *Page) look(ctx context.Context) {
	var found faults
	if from := p.sources.Load(); from != nil {
		found.check(ctx, slices.Concat(from.Checks, from.Watched))
	}
	p.outages.watch(found.sorted(), p.now())
}

// banner is shown at the top of the pages with pools, accounts or tenants: what fails, and since when.
type banner struct {
	Faults   []fault
	Circuits []circuit
}

func (s *state) banner() banner { return banner{s.Faults, s.Circuits} }

// Since is when the oldest fault began. It panics if there are no faults.
func (b banner) Since() time.Time {
	return slices.MinFunc(b.Faults, func(x, y fault) int { return x.Since.Compare(y.Since) }).Since
}
