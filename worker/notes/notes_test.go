package notes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/leaktest"
	"github.com/hap-worker/hap-worker/worker/observe"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// api is a Writer that records the notes.
type api struct {
	mu      sync.Mutex
	written []engine.Note
	fails   error
	hangs   bool
}

func (a *api) Note(ctx context.Context, n engine.Note) error {
	a.mu.Lock()
	hangs := a.hangs
	a.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.written = append(a.written, n)
	return a.fails
}

// take returns the notes that were written since the last call, one line each.
func (a *api) take() string {
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	var text strings.Builder
	for _, n := range a.written {
		fmt.Fprintf(&text, "%s %s x%d: %s\n", n.Binding, n.Reason, n.Count, n.Message)
	}
	a.written = nil
	return text.String()
}

// desk has the notes of a worker, with Run in the background.
type desk struct {
	*Notes
	observe.Observer

	api api

	mu      sync.Mutex
	results map[Result]int
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{results: map[Result]int{}}
	d.Notes = New(Options{
		Writer: &d.api, Known: func(binding string) bool { return !strings.HasPrefix(binding, "no-") },
		Told: func(r Result, _ error) {
			d.mu.Lock()
			d.results[r]++
			d.mu.Unlock()
		},
	})
	d.Observer = d.Notes.Observer()
	ctx, end := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { d.Run(ctx); close(done) }()
	t.Cleanup(func() { end(); <-done })
	return d
}

// told returns the results of the notes so far.
func (d *desk) told() map[Result]int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.results)
}

func (d *desk) claimed(binding, runtime string) {
	d.Claim(context.Background(), observe.Claim{Binding: binding, Pool: "aws", Runtime: runtime, Result: observe.ClaimWritten})
}

func (d *desk) release(binding, request, status string, code engine.Code) {
	d.Event(context.Background(), observe.Event{
		Type: "release", ID: request, Subject: "hap.v1.release." + engine.Token(binding), Status: status, Code: code, Outcome: observe.Ack,
	})
}

// TestTheStoryOfAnAccount: each fact becomes one note, in order.
func TestTheStoryOfAnAccount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		ctx := context.Background()
		b := engine.Binding{Name: "a.1", ResourceVersion: "1"}
		d.Changed(b, false) // it was there before
		d.Claim(ctx, observe.Claim{Binding: "a.1", Pool: "aws", Runtime: "rt-1", Result: observe.ClaimConflict, Err: engine.ErrConflict})
		d.Claim(ctx, observe.Claim{Binding: "a.1", Pool: "aws", Runtime: "rt-1", Result: observe.ClaimRefused, Err: fmt.Errorf("x: %w", engine.ErrRefused)})
		d.Claim(ctx, observe.Claim{Binding: "a.1", Pool: "aws", Runtime: "rt-1", Result: observe.ClaimUnavailable, Err: engine.ErrUnavailable})
		d.Claim(ctx, observe.Claim{Binding: "a.1", Pool: "aws", Runtime: "rt-1", Result: observe.ClaimRevoked})
		d.claimed("a.1", "rt-2")
		b.Tenant, b.ResourceVersion = "ga-1", "2"
		d.Changed(b, false)
		b.Cordoned, b.ResourceVersion = true, "3"
		d.Changed(b, false)
		d.Changed(b, false)
		b.Cordoned, b.Dirty, b.ResourceVersion = false, true, "4"
		d.Changed(b, false)
		d.release("a.1", "q-1", "rejected", engine.CodeNotDirty)
		d.release("a.1", "q-2", "returned", "")
		d.release("no-such", "q-3", "rejected", engine.CodeUnknownBinding)
		d.Event(ctx, observe.Event{Type: "release", Subject: "hap.v1.release.a=Z", Status: "rejected"})
		d.Event(ctx, observe.Event{Type: "provision", Subject: "hap.v1.provision.a.1", Binding: "a.1", Status: "assigned"})
		b.Dirty, b.ResourceVersion = false, "5"
		d.Changed(b, false)
		d.Changed(b, true)
		d.Changed(engine.Binding{Name: "a.1", Dirty: true}, false) // recreated
		time.Sleep(time.Minute)
		const want = `a.1 ClaimRefused x1: the API refuses claims of this account
a.1 ClaimRevoked x1: a claim was revoked: the account is another tenant's, dirty, internal, cordoned, in another pool or being deleted
a.1 Claimed x1: claimed in pool aws, for runtime rt-2
a.1 Cordoned x1: kept from new assignments
a.1 Dirty x1: marked dirty: to be cleaned, and then released
a.1 Uncordoned x1: may have new assignments again
a.1 ReleaseRefused x1: a release was refused: NotDirty
a.1 Released x1: cleaned and free again, by request q-2
`
		if got := d.api.take(); got != want {
			t.Errorf("noted\n%swant\n%s", got, want)
		}
		if !maps.Equal(d.told(), map[Result]int{Written: 8}) {
			t.Errorf("told %v", d.told())
		}
	})
}

// TestTheSameIsOneNote: equal facts within a period become one note with a count.
func TestTheSameIsOneNote(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.claimed("b", "rt")
		first := d.api.take()
		for range 500 {
			d.release("a", "q", "rejected", engine.CodeNotDirty)
		}
		time.Sleep(every)
		synctest.Wait() // a write may be due at this moment
		second := d.api.take()
		d.release("a", "q", "rejected", engine.CodeNotDirty)
		time.Sleep(every)
		synctest.Wait() // a write may be due at this moment
		d.api.mu.Lock()
		again := slices.Clone(d.api.written)
		d.api.mu.Unlock()
		if first == "" || second != "a ReleaseRefused x500: a release was refused: NotDirty\n" || len(again) != 1 || again[0].Count != 501 || !again[0].Written {
			t.Errorf("noted %q, %q and %+v", first, second, again)
		}
		time.Sleep(together)
		d.release("a", "q", "rejected", engine.CodeNotDirty)
		synctest.Wait()
		if last := d.api.written[1]; last.Count != 1 || last.Written || last.Name == again[0].Name {
			t.Errorf("later noted %+v after %+v", last, again)
		}
	})
}

// TestNamesOfNotes: a change that every worker sees has one name; an act of one worker has a unique name.
// Both are valid in Kubernetes.
func TestNamesOfNotes(t *testing.T) {
	t.Parallel()
	at := time.Unix(1, 1)
	seen, did := same{binding: "a", reason: engine.NoteDirty, version: "7"}, same{binding: "a", reason: engine.NoteClaimed}
	if nameOf(seen, at) != nameOf(seen, at.Add(1)) || nameOf(did, at) == nameOf(did, at.Add(1)) || nameOf(seen, at) == nameOf(did, at) {
		t.Error("names are not told apart as they should be")
	}
	long := nameOf(same{binding: strings.Repeat("a", 235) + "." + strings.Repeat("b", 17)}, at)
	if len(long) > 253 || strings.Contains(long, "..") {
		t.Errorf("%d characters: %s", len(long), long)
	}
}

// TestAFloodIsDropped: a flood of notes about one account, or thousands, does not increase the rate of
// writes. Notes about other accounts are written again afterwards. Callers never block.
func TestAFloodIsDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.api.hangs = true
		begun := time.Now()
		for i := range 50 {
			d.claimed("one", fmt.Sprint("rt-", i))
		}
		for i := range 5000 {
			d.claimed(fmt.Sprint("many-", i), "rt")
		}
		synctest.Wait()
		if time.Since(begun) != 0 || len(d.queue) > mostQueued || d.told()[Dropped] < 4000 {
			t.Errorf("after %s %d wait, told %v", time.Since(begun), len(d.queue), d.told())
		}
	})
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		for i := range 50 {
			d.claimed("one", fmt.Sprint("rt-", i))
		}
		d.claimed("other", "rt")
		time.Sleep((perAccount + 1) * every)
		if got := d.api.take(); strings.Count(got, "one Claimed") != perAccount || !strings.HasSuffix(got, "other Claimed x1: claimed in pool aws, for runtime rt\n") {
			t.Errorf("noted\n%s", got)
		}
		time.Sleep(together)
		d.claimed("one", "rt-50")
		if got := d.api.take(); got != "one Claimed x1: claimed in pool aws, for runtime rt-50\n" {
			t.Errorf("later noted\n%s", got)
		}
		if d.told()[Dropped] != 50-perAccount {
			t.Errorf("told %v", d.told())
		}
	})
}

// TestWhatCannotBeWritten: a note whose write fails is lost, and the pauses grow until a write succeeds.
func TestWhatCannotBeWritten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.api.fails = errors.New("forbidden")
		for i := range 1000 {
			d.claimed(fmt.Sprint("a-", i), "rt")
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := d.told()[Failed]; n < 55 || n > 70 || d.told()[Written] > 0 {
			t.Errorf("in an hour told %v", d.told())
		}
		d.api.mu.Lock()
		d.api.fails = nil
		d.api.mu.Unlock()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if n := d.told()[Written]; n < 300 {
			t.Errorf("after it takes notes again told %v", d.told())
		}
	})
}
