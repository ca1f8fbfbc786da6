package page

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

const (
	largeAccounts = 10_000
	largeReplies  = 1_000_000
)

// largest is a landscape of 10,000 accounts whose ledger has the assignments of 1,000,000
// runtimes. Replies are found by their sequence as a stream finds them.
type largest struct{ *landscape }

func theLargest() largest {
	l := largest{large(largeAccounts)}
	l.runtimes = map[string]account.Runtime{}
	for i := range largeReplies / 1000 { // in Redis, one in a thousand is looked for
		l.runtimes[fmt.Sprint("rt-", i*1000)] = account.Runtime{State: account.RuntimeAssigned, Binding: bindingOf(i * 1000), Tenant: tenantOf(i * 1000), Sequence: int64(i*1000 + 1), Confirmed: true}
	}
	return l
}

func bindingOf(i int) string { return fmt.Sprintf("aws-%d", i%largeAccounts/3*3) }
func tenantOf(i int) string  { return fmt.Sprintf("ga-%d", i%largeAccounts/3*3/6) }

func (l largest) fact(i int) storage.Fact {
	return storage.Fact{
		RuntimeID: fmt.Sprint("rt-", i), RequestID: fmt.Sprint("q-", i), GlobalAccountID: tenantOf(i), Status: events.StatusAssigned, Pool: "aws", Binding: bindingOf(i),
		Sequence: int64(i + 1), Claimed: i%100 == 0, Position: uint64(i + 1), Subject: fmt.Sprintf("hap.v1.reply.rt-%d.q-%d", i, i),
		Time: noon.Add(-time.Duration(largeReplies-i) * 2 * time.Second), Published: noon.Add(-time.Duration(largeReplies-i)*2*time.Second - 5*time.Millisecond),
	}
}

func (l largest) stored(i int) events.Stored {
	f := l.fact(i)
	return events.Stored{Subject: f.Subject, Sequence: f.Position, Time: f.Time, Reply: events.Reply{
		RuntimeID: f.RuntimeID, RequestID: f.RequestID, GlobalAccountID: f.GlobalAccountID, Status: f.Status,
		Binding: &events.Binding{Name: f.Binding, Claimed: f.Claimed}, Decision: &events.Decision{Pool: f.Pool, Sequence: f.Sequence},
	}}
}

func (l largest) End(context.Context) (uint64, error) { return largeReplies, nil }

func (l largest) FactsAfter(_ context.Context, after uint64, visit func(storage.Fact) error) error {
	for i := int(after); i < largeReplies; i++ {
		if err := visit(l.fact(i)); err != nil {
			return err
		}
	}
	return nil
}

func (l largest) At(_ context.Context, sequence uint64) (events.Stored, bool, error) {
	return l.stored(int(sequence) - 1), true, nil
}

// OfRuntime and OfRequest find by the number in the id.
func (l largest) OfRuntime(_ context.Context, id string, visit func(events.Stored) error) error {
	return l.numbered(id, "rt-%d", visit)
}

func (l largest) OfRequest(_ context.Context, id string, visit func(events.Stored) error) error {
	return l.numbered(id, "q-%d", visit)
}

func (l largest) numbered(id, form string, visit func(events.Stored) error) error {
	var i int
	if n, err := fmt.Sscanf(id, form, &i); err != nil || n != 1 || fmt.Sprintf(form, i) != id {
		return nil //nolint:nilerr // it is no such id
	}
	return visit(l.stored(i))
}

func (l largest) Last(_ context.Context, subject string) (events.Stored, bool, error) {
	var i, q int
	n, err := fmt.Sscanf(subject, "hap.v1.reply.rt-%d.q-%d", &i, &q)
	if err != nil || n != 2 {
		return events.Stored{}, false, nil //nolint:nilerr // there is no such reply
	}
	return l.stored(i), true, nil
}

// BenchmarkPages times each page, and the search, of the largest landscape, after the
// ledger was read once. docs/performance.md has the figures.
func BenchmarkPages(b *testing.B) {
	l := theLargest()
	p, _ := newPage(b, nil, nil)
	from := sourcesOf(b, l.landscape)
	from.Facts, from.Ledger = l, l
	p.Connect(from)
	begun := time.Now()
	for !p.sources.Load().past.Look(b.Context()).Done { // each look waits a moment
		if time.Since(begun) > time.Minute {
			b.Fatal("the ledger is not read")
		}
	}
	for _, page := range []struct{ name, path string }{
		{"overview", "/"}, {"pool", "/pools/aws"}, {"pool, a state, page 42", "/pools/aws?state=free&page=42"}, {"tenants", "/tenants"},
		{"runtime", "/runtimes/rt-500000"}, {"account", "/accounts/aws-3000"}, {"tenant", "/tenants/ga-500"}, {"record", "/records/rt-500000/q-500000"},
		{"find a runtime", "/find?q=rt-500000"}, {"find a request", "/find?q=q-500000"}, {"find an account", "/find?q=aws-3000"},
		{"find a tenant", "/find?q=ga-500"}, {"find a part of a name", "/find?q=a-99"}, {"find nothing", "/find?q=nothing-at-all"},
	} {
		b.Run(page.name, func(b *testing.B) {
			for b.Loop() {
				if w := get(b, p, page.path); w.Code >= http.StatusBadRequest && page.name != "find nothing" {
					b.Fatalf("%s: %d\n%s", page.path, w.Code, w.Body)
				}
			}
		})
	}
}
