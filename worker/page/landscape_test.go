package page

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/rule"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/streams"
	"github.com/hap-worker/hap-worker/ledger/dead"
	"github.com/hap-worker/hap-worker/ledger/queued"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/observe"
	"github.com/hap-worker/hap-worker/worker/page/access"
)

// noon is the moment of every test with a clock that stands still.
var noon = time.Date(2026, 11, 20, 12, 0, 5, 0, time.UTC)

// landscape is all that the page reads, in memory.
type landscape struct {
	mu       sync.Mutex
	bindings []engine.Binding
	records  map[string][]account.NamedRecord
	status   map[string]account.Status
	queue    map[string][]account.Waiter
	waiting  []storage.WaitingRequest
	replies  map[string]events.Stored
	runtimes map[string]account.Runtime
	parents  []Parent
	down     error // of Redis
	closed   error // of the stream of what waits
	reads    int   // of the whole
	letters  []dead.Letter
	queued   []queued.Event
	searches int // readings of the two
}

func (l *landscape) All() iter.Seq[engine.Binding] {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reads++
	return slices.Values(slices.Clone(l.bindings))
}

func (l *landscape) Pools(context.Context) ([]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.status)), l.down
}

func (l *landscape) Status(_ context.Context, pool string) (account.Status, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.status[pool], l.down
}

func (l *landscape) Bindings(_ context.Context, pool string) iter.Seq2[account.NamedRecord, error] {
	l.mu.Lock()
	defer l.mu.Unlock()
	records := slices.Clone(l.records[pool])
	return func(yield func(account.NamedRecord, error) bool) {
		for _, r := range records {
			if !yield(r, nil) {
				return
			}
		}
	}
}

func (l *landscape) Queue(_ context.Context, pool string) ([]account.Waiter, error) {
	return l.queue[pool], l.down
}

func (l *landscape) Each(_ context.Context, visit func(storage.WaitingRequest) error) error {
	for _, w := range l.waiting {
		if err := visit(w); err != nil {
			return err
		}
	}
	return l.closed
}

func (l *landscape) Matching(_ context.Context, of events.WaitingAddress, visit func(storage.WaitingRequest) error) error {
	for _, w := range l.waiting {
		if (of.Pool == "" || of.Pool == w.Pool) && (of.RuntimeID == "" || of.RuntimeID == w.Event.RuntimeID) &&
			(of.GlobalAccountID == "" || of.GlobalAccountID == w.Event.Provision.GlobalAccountID) {
			if err := visit(w); err != nil {
				return err
			}
		}
	}
	return l.closed
}

func (l *landscape) Last(_ context.Context, subject string) (events.Stored, bool, error) {
	if subject == "hap.v1.reply.rt-broken.q-1" {
		return events.Stored{}, false, errors.New("no responders available")
	}
	s, found := l.replies[subject]
	return s, found, nil
}

func (l *landscape) each(of func(string) bool, visit func(events.Stored) error) error {
	for _, subject := range slices.Sorted(maps.Keys(l.replies)) {
		if of(subject) {
			if err := visit(l.replies[subject]); err != nil {
				return err
			}
		}
	}
	return l.closed
}

func (l *landscape) OfRuntime(_ context.Context, id string, visit func(events.Stored) error) error {
	return l.each(func(subject string) bool { return strings.HasPrefix(subject, "hap.v1.reply."+id+".") }, visit)
}

func (l *landscape) OfRequest(_ context.Context, id string, visit func(events.Stored) error) error {
	return l.each(func(subject string) bool { return strings.HasSuffix(subject, "."+id) }, visit)
}

func (l *landscape) Under(_ context.Context, filter string, visit func(events.Stored) error) error {
	return l.each(func(subject string) bool { return strings.HasPrefix(subject, strings.TrimSuffix(filter, "*")) }, visit)
}

// Newest visits the dead letters.
func (l *landscape) Newest(_ context.Context, _ time.Time, most uint64, visit func(dead.Letter) error) (streams.Extent, error) {
	l.searches++
	letters := l.letters[max(0, len(l.letters)-int(most)):]
	extent := streams.Extent{Read: len(letters), Bounded: len(letters) < len(l.letters), From: noon.Add(-time.Hour)}
	for _, letter := range letters {
		if err := visit(letter); err != nil {
			return extent, err
		}
	}
	return extent, l.closed
}

func (l *landscape) Queued(_ context.Context, most uint64) ([]queued.Event, streams.Extent, error) {
	l.searches++
	newest := l.queued[max(0, len(l.queued)-int(most)):]
	return newest, streams.Extent{Read: len(newest), Bounded: len(newest) < len(l.queued), From: noon.Add(-time.Hour)}, l.closed
}

func (l *landscape) At(_ context.Context, sequence uint64) (events.Stored, bool, error) {
	for _, s := range l.replies {
		if s.Sequence == sequence {
			return s, true, l.closed
		}
	}
	return events.Stored{}, false, l.closed
}

func (l *landscape) End(context.Context) (uint64, error) {
	last := uint64(0)
	for _, s := range l.replies {
		last = max(last, s.Sequence)
	}
	return last, l.closed
}

func (l *landscape) FactsAfter(_ context.Context, after uint64, visit func(storage.Fact) error) error {
	all := slices.SortedFunc(maps.Values(l.replies), func(a, b events.Stored) int { return cmp.Compare(a.Sequence, b.Sequence) })
	for _, s := range all {
		if s.Sequence > after {
			if err := visit(told(s)); err != nil {
				return err
			}
		}
	}
	return l.closed
}

func (l *landscape) Runtime(_ context.Context, id string) (account.Place, account.Runtime, error) {
	if rt, known := l.runtimes[id]; known {
		return account.Place{Pool: "aws"}, rt, l.down
	}
	return account.Place{}, account.Runtime{}, l.down
}

func (l *landscape) Parents(context.Context) ([]Parent, error) { return l.parents, nil }

// claim adds a binding with its record.
func (l *landscape) claim(of engine.Pool, name string, rec account.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bindings = append(l.bindings, engine.Binding{
		Name: name, HyperscalerType: of.HyperscalerType, EUAccess: of.EUAccess, Shared: of.Shared, Tenant: rec.Tenant,
		Dirty: rec.State == account.Dirtying,
	})
	if rec.State != "" {
		l.records[of.Name()] = append(l.records[of.Name()], account.NamedRecord{Binding: name, Record: rec})
	}
}

func emptyLandscape() *landscape {
	return &landscape{
		records: map[string][]account.NamedRecord{}, status: map[string]account.Status{},
		queue: map[string][]account.Waiter{}, replies: map[string]events.Stored{},
	}
}

// demo has something of everything.
func demo() *landscape {
	l := emptyLandscape()
	aws, gcp, shared := engine.Pool{HyperscalerType: "aws"}, engine.Pool{HyperscalerType: "gcp_cf-sa30", EUAccess: true}, engine.Pool{HyperscalerType: "azure", Shared: true}
	use := func(tenant string, n int) account.Record {
		return account.Record{State: account.InUse, Tenant: tenant, Count: n}
	}
	l.claim(aws, "aws-1", use("ga-1", 10))
	l.claim(aws, "aws-2", use("ga-1", 3))
	l.claim(aws, "aws-10", account.Record{State: account.Claiming, Tenant: "ga-2", Count: 1})
	l.claim(aws, "aws-3", account.Record{State: account.Draining, Tenant: "ga-3"})
	l.claim(aws, "aws-4", account.Record{State: account.Dirtying, Tenant: "ga-4"})
	l.claim(aws, "aws-5", account.Record{})
	l.claim(aws, "aws-6", account.Record{})
	l.bindings = append(l.bindings,
		engine.Binding{Name: "aws-7", HyperscalerType: "aws", Internal: true},
		engine.Binding{Name: "aws-8", HyperscalerType: "aws", Cordoned: true})
	l.records["aws"] = append(l.records["aws"], account.NamedRecord{Binding: "aws-gone", Record: use("ga-5", 2)},
		account.NamedRecord{Binding: "aws-gone-too", Record: account.Record{State: account.Free, Count: 1}})
	l.claim(gcp, "sa-1", use("ga-1", 5))
	l.claim(shared, "azure-s", account.Record{State: account.InUse, Confirmed: true, Count: 7})
	l.status["aws"] = account.Status{Built: true}
	l.status[shared.Name()] = account.Status{Built: true}
	l.status[gcp.Name()] = account.Status{Built: true, Paused: true, Waiting: 2}
	l.queue[gcp.Name()] = []account.Waiter{{Runtime: "rt-8"}, {Runtime: "rt-9"}}
	waits := func(runtime, tenant string, reason events.WaitingReason, since time.Duration) storage.WaitingRequest {
		return storage.WaitingRequest{
			Event: events.Event{ID: "q-" + runtime, RuntimeID: runtime, Provision: &events.Provision{GlobalAccountID: tenant}},
			Pool:  gcp.Name(), Reason: reason, Since: noon.Add(-since), Deadline: noon.Add(10*time.Minute - since),
		}
	}
	l.waiting = []storage.WaitingRequest{
		waits("rt-9", "ga-9", events.WaitingPoolEmpty, 190*time.Second),
		waits("rt-8", "ga-8", events.WaitingPoolEmpty, 100*time.Second),
		waits("rt-7", "ga-7", events.WaitingUnavailable, 3*time.Second),
	}
	l.parents = []Parent{{Name: "clusters", CIDR: netip.MustParsePrefix("10.0.0.0/8"), Used: []netip.Prefix{
		netip.MustParsePrefix("10.64.0.0/10"), netip.MustParsePrefix("10.64.0.0/24"), netip.MustParsePrefix("10.65.0.0/16"), netip.MustParsePrefix("10.0.0.0/10"), netip.MustParsePrefix("10.192.0.0/12"),
	}}}
	clusters := 3
	l.replies["hap.v1.reply.rt-1.q-1"] = events.Stored{Sequence: 77, Time: noon, Reply: events.Reply{
		RequestID: "q-1", RuntimeID: "rt-1", Status: events.StatusAssigned, GlobalAccountID: "ga-1", Plan: "aws", Provider: "aws",
		Binding: &events.Binding{Name: "aws-2", Claimed: true}, Clusters: &clusters, Limit: 10,
		Decision: &events.Decision{
			Sequence: 12, Rule: "aws", RuleNumber: 1, Pool: "aws", LabelSelector: "hyperscalerType=aws,!dirty",
			Considered: []events.Considered{{Binding: "aws-1", Clusters: 10, Verdict: "at-limit", Own: true}, {Binding: "aws-2", Verdict: "chosen"}},
			Passed:     []events.Passed{{Rule: "aws(PR=cf-eu11) -> EU", RuleNumber: 2, Why: "is for platform region cf-eu11, the request has <none>"}},
			Attempts:   []events.Attempt{{Binding: "aws-3", Result: "conflict"}, {Binding: "aws-2", Result: "written"}},
			Times:      &events.Times{Published: noon.Add(-time.Second), Decided: noon.Add(-time.Millisecond)},
		},
	}}
	l.replies["hap.v1.reply._binding.aws-4.q-2"] = events.Stored{Sequence: 78, Time: noon, Subject: "hap.v1.reply._binding.aws-4.q-2", Reply: events.Reply{
		RequestID: "q-2", Status: events.StatusRejected,
		Error: &events.ReplyError{Code: engine.CodeBindingInUse, Message: "2 clusters are on aws-4"},
	}}
	l.runtimes = map[string]account.Runtime{"rt-1": {State: account.RuntimeAssigned, Binding: "aws-2", Tenant: "ga-1"}}
	told := func(sequence uint64, ago time.Duration, r events.Reply) {
		subject := "hap.v1.reply." + r.RuntimeID + "." + r.RequestID
		if r.RuntimeID == "" {
			subject = "hap.v1.reply._binding." + r.Binding.Name + "." + r.RequestID
		}
		l.replies[subject] = events.Stored{Sequence: sequence, Time: noon.Add(-ago), Subject: subject, Reply: r}
	}
	aws4, hour := &events.Binding{Name: "aws-4", Claimed: true}, time.Hour
	in := func(n int64) *events.Decision { return &events.Decision{Pool: "aws", Sequence: n} }
	told(1, 9*hour, events.Reply{RequestID: "q-a", RuntimeID: "rt-a", Status: events.StatusAssigned, GlobalAccountID: "ga-3", Binding: aws4, Decision: in(1)})
	told(2, 8*hour, events.Reply{RequestID: "q-b", RuntimeID: "rt-a", Status: events.StatusReleased, GlobalAccountID: "ga-3", Binding: aws4, Decision: in(2), MarkedDirty: true})
	told(3, 7*hour, events.Reply{RequestID: "q-c", Status: events.StatusReturned, Binding: aws4, Decision: in(0)})
	told(4, 6*hour, events.Reply{RequestID: "q-d", RuntimeID: "rt-d", Status: events.StatusAssigned, GlobalAccountID: "ga-4", Binding: aws4, Decision: in(3)})
	told(5, 5*hour, events.Reply{RequestID: "q-e", RuntimeID: "rt-d", Status: events.StatusReleased, GlobalAccountID: "ga-4", Binding: aws4, Decision: in(4), Draining: true})
	told(6, 4*time.Second, events.Reply{
		RequestID: "q-f", RuntimeID: "rt-f", Status: events.StatusRejected, GlobalAccountID: "ga-4",
		Error: &events.ReplyError{Code: engine.CodeNoMatchingRule, Message: "no rule"},
	})
	letter := func(number uint64, code engine.Code, subject string, e events.Event) {
		l.letters = append(l.letters, dead.Letter{Number: number, StoredAt: noon.Add(-time.Minute), Code: code, Subject: subject, Event: e})
	}
	letter(11, engine.CodeNoMatchingRule, "hap.v1.provision.ga-6", events.Event{ID: "q-dead", RuntimeID: "rt-dead", Type: events.TypeProvision, Provision: &events.Provision{GlobalAccountID: "ga-6"}})
	letter(12, engine.CodeInvalidEvent, "hap.v1.deprovision.ga-6", events.Event{})
	letter(13, engine.CodeStaleRelease, "hap.v1.release.aws-9", events.Event{ID: "q-stale", Binding: "aws-9", Type: events.TypeRelease})
	l.queued = []queued.Event{
		{Event: events.Event{ID: "q-work", RuntimeID: "rt-work", Type: events.TypeProvision, Provision: &events.Provision{GlobalAccountID: "ga-1"}}, Published: noon.Add(-time.Second), TakenUp: new(true)},
		{Event: events.Event{ID: "q-next", Binding: "aws-9", Type: events.TypeRelease}, Published: noon, TakenUp: new(false), Before: 3},
	}
	told(7, 3*time.Second, events.Reply{RequestID: "q-g", Status: events.StatusReturned, Binding: &events.Binding{Name: "aws-gone-long"}})
	told(8, 2*time.Second, events.Reply{RequestID: "q-h", Status: events.StatusReturned, Binding: &events.Binding{Name: "aws-gone-long"}})
	return l
}

// settings limit accounts to ten clusters, but for the tenant ga-2.
type settings struct{ rules *rule.Ruleset }

func (s settings) Rules() *rule.Ruleset { return s.rules }

func (settings) Terms(tenant, _ string) account.Terms {
	if tenant == "ga-2" {
		return account.Terms{}
	}
	return account.Terms{Several: true, Limit: 10}
}

func inForce(t testing.TB) settings {
	t.Helper()
	rules, err := rule.Compile([]string{"aws", "aws(PR=cf-eu11) -> EU", "trial -> S"}, rule.Options{Require: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	return settings{rules}
}

// logged has what the page wrote into its log.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// newPage makes a page on a landscape whose clock stands at noon.
func newPage(t testing.TB, l *landscape, change func(*Options)) (*Page, *logged) {
	t.Helper()
	log := &logged{}
	recent := NewRecent()
	recent.now = func() time.Time { return noon }
	o := Options{
		Access: access.Rules{Listen: "127.0.0.1:8080"}, Settings: func() Settings { return inForce(t) }, Recent: recent,
		Version: "v1.2.3", Instance: "host-1", Log: slog.New(slog.NewTextHandler(log, nil)),
	}
	if change != nil {
		change(&o)
	}
	p := New(t.Context(), o)
	p.now = func() time.Time { return noon }
	p.cache.now = p.now
	if l != nil {
		p.Connect(sourcesOf(t, l))
	}
	return p, log
}

func sourcesOf(t testing.TB, l *landscape) Sources {
	t.Helper()
	subjects, err := events.NewSubjects("")
	if err != nil {
		t.Fatal(err)
	}
	return Sources{Accounts: l, Records: l, Room: l, Ledger: l, Facts: l, Keep: 7 * 24 * time.Hour, Networks: l, Subjects: subjects, Letters: l.Newest, Queued: l.Queued}
}

// busy does what a worker did before noon.
func busy(r *Recent) {
	for i, e := range []observe.Event{
		{Type: "provision", ID: "q-1", Runtime: "rt-1", Tenant: "ga-1", Status: "assigned", Outcome: observe.Ack, Binding: "aws-2", Duration: 3 * time.Millisecond},
		{Type: "provision", ID: "q-3", Runtime: "rt-3", Tenant: "ga-1", Outcome: observe.NakWithDelay, Code: engine.CodeInternal, Duration: 20 * time.Second},
		{Type: "release", ID: "q-2", Status: "rejected", Outcome: observe.Ack, Code: engine.CodeBindingInUse, Binding: "aws-4", Duration: 900 * time.Microsecond},
		{Type: "unknown", Outcome: observe.DeadLetter, Code: engine.CodeInvalidEvent, Duration: 100 * time.Microsecond},
		{Type: "provision", ID: "q-4", Runtime: "rt-4", Tenant: "ga-2", Status: "assigned", Outcome: observe.Served, Binding: "aws-10", Duration: 12 * time.Millisecond, Waited: 2 * time.Minute},
	} {
		r.now = func() time.Time { return noon.Add(time.Duration(i-5) * 15 * time.Second) }
		r.OnEvent(context.Background(), e)
	}
	r.now = func() time.Time { return noon }
}

func get(t testing.TB, h http.Handler, path string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, http.NoBody)
	r.Host = "localhost:8080"
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// large is a landscape of so many accounts in one pool, a third of them in use.
func large(accounts int) *landscape {
	l := emptyLandscape()
	of := engine.Pool{HyperscalerType: "aws"}
	l.status["aws"] = account.Status{Built: true}
	for i := range accounts {
		rec := account.Record{}
		if i%3 == 0 {
			rec = account.Record{State: account.InUse, Tenant: fmt.Sprintf("ga-%d", i/6), Count: i % 11}
		}
		l.claim(of, fmt.Sprintf("aws-%d", i), rec)
	}
	return l
}
