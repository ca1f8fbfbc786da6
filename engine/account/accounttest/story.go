package accounttest

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/hap-worker/hap-worker/engine/account"
)

// stories are the scenarios. Most of their names begin with a rule of docs/protocol.md. A command is a call; the
// lines under ---- are its result.
//
//go:embed testdata
var stories embed.FS

// Stories returns the names of all scenarios.
func Stories() []string {
	entries, err := fs.ReadDir(stories, "testdata")
	if err != nil {
		panic(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// Tell runs one scenario on a machine in which nothing is built.
func Tell(t testing.TB, name string, m Machine) {
	t.Helper()
	text, err := stories.ReadFile(path.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	s := NewStory(m)
	datadriven.RunTestFromStringAny(t, string(text), func(t testing.TB, d *datadriven.TestData) string {
		return s.Do(t, d)
	})
}

// Story runs the lines of a scenario, all on the pool "p" unless a line names another.
type Story struct {
	m   Machine
	now time.Time
}

// NewStory begins a scenario on m.
func NewStory(m Machine) *Story { return &Story{m: m, now: time.Unix(1_000_000, 0)} }

// Do runs one command and returns its result as text.
func (s *Story) Do(t testing.TB, d *datadriven.TestData) string {
	t.Helper()
	ctx := context.Background()
	l := line{t: t, d: d}
	commands := []func(context.Context, line) (string, bool, error){s.deciding, s.claiming, s.releasing, s.locating, s.rebuilding, s.repairing}
	for _, do := range commands {
		out, known, err := do(ctx, l)
		switch {
		case !known:
			continue
		case errors.Is(err, account.ErrNotBuilt):
			return "not built"
		case errors.Is(err, account.ErrRebuilt):
			return "rebuilt since"
		case err != nil:
			return "error: " + err.Error()
		default:
			return out
		}
	}
	d.Fatalf(t, "no such command: %s", d.Cmd)
	return ""
}

// line reads the arguments of a line.
type line struct {
	t testing.TB
	d *datadriven.TestData
}

// name returns the n-th bare word, counted from 0.
func (l line) name(n int) string {
	for _, a := range l.d.CmdArgs {
		if len(a.Vals) == 0 {
			if n == 0 {
				return a.Key
			}
			n--
		}
	}
	return ""
}

func (l line) has(word string) bool {
	a, ok := l.d.Arg(word)
	return ok && len(a.Vals) == 0
}

func (l line) text(key, otherwise string) string {
	if a, ok := l.d.Arg(key); ok && len(a.Vals) == 1 {
		return a.Vals[0]
	}
	return otherwise
}

func (l line) list(key string) []string {
	a, _ := l.d.Arg(key)
	return a.Vals
}

func (l line) number(key string) int64 {
	n, err := strconv.ParseInt(l.text(key, "0"), 10, 64)
	if err != nil {
		l.d.Fatalf(l.t, "%s: %v", key, err)
	}
	return n
}

func (l line) pool() string { return l.text("pool", "p") }

// place reads [pool=P] [after=N].
func (l line) place() account.Place {
	return account.Place{Pool: l.pool(), Sequence: l.number("after")}
}

// entry reads: [pool=P] [gone] [tentative] [seq=N], none of them for no entry.
func (l line) entry() account.Place {
	tentative := l.has("tentative")
	return account.Place{Pool: l.text("pool", ""), Gone: l.has("gone") || tentative, Tentative: tentative, Sequence: l.number("seq")}
}

// request reads: assign RUNTIME REQUEST tenant=T [seen=(name@generation, name@generation*)]
// [barred=(name)] [epoch=E] [after=N] [all] [in-turn] [now] [shared] [several] [limit=N] [strategy=S].
// A star means that the binding's label names the tenant.
func (l line) request() account.Request {
	r := account.Request{
		Runtime: l.name(0), Request: l.name(1), Tenant: l.text("tenant", ""), Shared: l.has("shared"),
		All: l.has("all"), InTurn: l.has("in-turn"), Now: l.has("now"), Barred: l.list("barred"), Epoch: l.text("epoch", ""), After: l.number("after"),
		Terms: account.Terms{
			Several: l.has("several"), Limit: int(l.number("limit")),
			Strategy: account.Strategy(l.text("strategy", "")),
		},
	}
	for _, text := range l.list("seen") {
		name, generation, _ := strings.Cut(text, "@")
		generation, mine := strings.CutSuffix(generation, "*")
		n, _ := strconv.ParseInt(generation, 10, 64)
		r.Seen = append(r.Seen, account.Seen{Binding: name, Generation: n, Mine: mine})
	}
	return r
}

func (s *Story) deciding(ctx context.Context, l line) (string, bool, error) {
	switch l.d.Cmd {
	case "queue":
		waiters, err := s.m.Queue(ctx, l.pool())
		ids := make([]string, len(waiters))
		for i, w := range waiters {
			ids[i] = w.Runtime
		}
		return strings.Join(ids, " "), true, err
	case "assign":
		d, err := s.m.Assign(ctx, l.pool(), l.request())
		return Decision(d), true, err
	case "refuse":
		d, err := s.m.Refuse(ctx, l.place(), l.name(0), l.name(1), l.text("tenant", ""))
		return Decision(d), true, err
	case "leave":
		sequence, left, err := s.m.Leave(ctx, l.place(), l.name(0), l.name(1), l.text("tenant", ""))
		if !left {
			return "stays", true, err
		}
		return fmt.Sprintf("left seq=%d", sequence), true, err
	case "take-back":
		return "done", true, s.m.TakeBack(ctx, l.pool(), l.name(0), l.name(1), l.text("tenant", ""))
	case "pause":
		return "done", true, s.m.Pause(ctx, l.pool())
	case "resume":
		return "done", true, s.m.Resume(ctx, l.pool())
	}
	return "", false, nil
}

// claiming reads: confirm RUNTIME BINDING g=N seq=N epoch=E, and revoke with the same arguments.
func (s *Story) claiming(ctx context.Context, l line) (string, bool, error) {
	c := account.Claim{
		Runtime: l.name(0), Binding: l.name(1), Generation: l.number("g"),
		Sequence: l.number("seq"), Epoch: l.text("epoch", ""),
	}
	switch l.d.Cmd {
	case "confirm":
		ok, err := s.m.Confirm(ctx, l.pool(), c)
		return yes(ok), true, err
	case "revoke":
		ok, err := s.m.Revoke(ctx, l.pool(), c)
		return yes(ok), true, err
	}
	return "", false, nil
}

func (s *Story) releasing(ctx context.Context, l line) (string, bool, error) {
	switch l.d.Cmd {
	case "release":
		d, err := s.m.ReleaseRuntime(ctx, l.place(), l.name(0), l.text("tenant", ""))
		return Departure(d), true, err
	case "release-unknown":
		d, err := s.m.ReleaseUnknown(ctx, l.place(), l.name(0), l.text("tenant", ""))
		return Departure(d), true, err
	case "forget":
		ok, err := s.m.Forget(ctx, l.pool(), l.name(0), l.number("seq"))
		return yes(ok), true, err
	case "begin-dirtying":
		p, err := s.m.BeginDirtying(ctx, l.pool(), l.name(0), l.number("g"))
		return Permit(p), true, err
	case "in-use":
		n, err := s.m.InUse(ctx, l.pool(), l.name(0))
		return strconv.Itoa(n), true, err
	case "mark-freed":
		ok, err := s.m.MarkFreed(ctx, l.pool(), l.name(0), l.number("g"))
		return yes(ok), true, err
	case "observe":
		o, err := s.m.Observe(ctx, l.pool(), account.Label{
			Binding: l.name(0), Tenant: l.text("tenant", ""), Dirty: l.has("dirty"), Generation: l.number("g"), After: l.number("after"),
		})
		return Observation(o), true, err
	}
	return "", false, nil
}

func (s *Story) locating(ctx context.Context, l line) (string, bool, error) {
	switch l.d.Cmd {
	case "locate":
		p, err := s.m.Locate(ctx, l.name(0), l.pool())
		return Place(p), true, err
	case "locate-and-assign":
		d, err := s.m.LocateAndAssign(ctx, l.pool(), l.request())
		return Decision(d), true, err
	case "depart":
		p, err := s.m.Depart(ctx, l.name(0))
		return Place(p), true, err
	case "begin-forgetting":
		p, err := s.m.BeginForgetting(ctx, l.name(0), l.entry())
		return Place(p), true, err
	case "forget-place":
		ok, err := s.m.ForgetPlace(ctx, l.name(0), l.entry())
		return yes(ok), true, err
	case "move-place":
		from := l.place()
		if l.has("tentative") {
			from = account.Place{Gone: true, Tentative: true, Sequence: l.number("after")}
		}
		ok, err := s.m.MovePlace(ctx, l.name(0), from, account.Place{Pool: l.text("to", ""), Sequence: l.number("seq")})
		return yes(ok), true, err
	case "records":
		out, err := Records(ctx, s.m, l.pool())
		return out, true, err
	}
	return "", false, nil
}

// rebuilding reads: begin TOKEN and renew TOKEN, both with on=PLACE and after=SECONDS; discard on=PLACE;
// install TOKEN seq=N with a record per line; and build TOKEN, which is begin and install; and lose.
func (s *Story) rebuilding(ctx context.Context, l line) (string, bool, error) {
	s.now = s.now.Add(time.Duration(l.number("after")) * time.Second)
	place, token := l.text("on", l.pool()), l.name(0)
	switch l.d.Cmd {
	case "lose":
		return "lost", true, s.m.Lose(ctx)
	case "discard":
		was, err := s.m.Discard(ctx, place)
		return yes(was), true, err
	case "begin":
		mine, err := s.m.BeginRebuild(ctx, place, token, s.now, 30*time.Second)
		return yes(mine), true, err
	case "renew":
		mine, err := s.m.RenewRebuild(ctx, place, token, s.now)
		return yes(mine), true, err
	case "build":
		if mine, err := s.m.BeginRebuild(ctx, place, token, s.now, 0); err != nil || !mine {
			return "not mine", true, err
		}
		return s.install(ctx, l, place, token)
	case "install":
		return s.install(ctx, l, place, token)
	}
	return "", false, nil
}

func (s *Story) install(ctx context.Context, l line, place, token string) (string, bool, error) {
	if strings.HasPrefix(place, "rt:") {
		ok, err := s.m.InstallBucket(ctx, place, token, account.Directory{Sequence: l.number("seq")})
		return yes(ok), true, err
	}
	snapshot, err := parseSnapshot(l.d.Input)
	if err != nil {
		l.d.Fatalf(l.t, "%v", err)
	}
	snapshot.Sequence = l.number("seq")
	ok, err := s.m.Install(ctx, place, token, snapshot)
	return yes(ok), true, err
}

// parseSnapshot reads lines of bindings and runtimes as Records writes them.
func parseSnapshot(text string) (account.Snapshot, error) {
	runtimes := map[string]account.Runtime{}
	s := account.Snapshot{Bindings: map[string]account.Record{}, Runtimes: maps.All(runtimes)}
	for row := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		f := strings.Fields(row)
		switch {
		case len(f) == 0:
		case len(f) < 3:
			return s, fmt.Errorf("%q is no record", row)
		case f[0] == "binding":
			s.Bindings[f[1]] = parseRecord(f[2:])
		case f[0] == "runtime":
			runtimes[f[1]] = parseRuntime(f[2:])
		default:
			return s, fmt.Errorf("%q is no record", row)
		}
	}
	return s, nil
}

func parseRecord(f []string) account.Record {
	get := fields(f)
	return account.Record{
		State: account.State(f[0]), Tenant: get.text("tenant"), Generation: get.number("g"),
		Confirmed: slices.Contains(f, "confirmed"), Count: int(get.number("count")), Claimed: get.number("claimed"),
		Pristine: slices.Contains(f, "pristine"),
	}
}

func parseRuntime(f []string) account.Runtime {
	get := fields(f)
	return account.Runtime{
		State: account.RuntimeState(f[0]), Binding: get.text("on"), Sequence: get.number("seq"),
		Request: get.text("request"), Confirmed: slices.Contains(f, "confirmed"),
		Origin: account.Origin(get.text("origin")), Tenant: get.text("tenant"),
	}
}

// fields are the words of a line; a value is written key=value.
type fields []string

func (f fields) text(key string) string {
	for _, word := range f {
		if value, ok := strings.CutPrefix(word, key+"="); ok {
			return value
		}
	}
	return ""
}

func (f fields) number(key string) int64 {
	n, _ := strconv.ParseInt(f.text(key), 10, 64)
	return n
}
