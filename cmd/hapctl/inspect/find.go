package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/cmd/hapctl/letters"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/streams"
	"github.com/hap-worker/hap-worker/ledger/dead"
	"github.com/hap-worker/hap-worker/ledger/queued"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/config"
)

// finder finds the runtime, request, account or tenant to explain. Its methods that return a view return nil
// if they find nothing, except findTenant.
type finder struct {
	question

	s        *cli.Shell
	cfg      *config.Config
	searches []searched // except those by the subjects of replies and of waiting requests, which find all
}

// searched says how much of a stream the finder read.
type searched struct {
	Stream   string    `json:"stream"`
	Messages int       `json:"messages"`
	From     time.Time `json:"from,omitzero"` // time of the oldest message that was read
	Bounded  bool      `json:"bounded"`       // --newest has left messages out

	older bool // there are messages from before the time that the user asked for
}

func (f *finder) searched(stream string, e streams.Extent) {
	f.searches = append(f.searches, searched{Stream: stream, Messages: e.Read, From: e.From.UTC(), Bounded: e.Bounded, older: e.Older})
}

// toldOfSearches returns output lines for the searches that did not read everything, or, with all, for all
// searches.
func toldOfSearches(searches []searched, all bool) [][2]string {
	var lines [][2]string
	for _, one := range searches {
		if all || one.Bounded {
			lines = append(lines, cli.FoldedPair("SEARCHED", one.text())...)
		}
	}
	return lines
}

// text says what was read, and which flag reads more if there is more.
func (s searched) text() string {
	text := fmt.Sprintf("%s: %d messages", s.Stream, s.Messages)
	switch {
	case s.Bounded:
		return fmt.Sprintf("%s: the newest %d messages only, back to %s; --newest reads more", s.Stream, s.Messages, s.From.Format(time.RFC3339))
	case s.older:
		return text + "; older ones were not read, --since looks further back"
	default:
		return text
	}
}

// any finds a runtime or else a request, an account or a tenant with the name, the first of these that exists.
func (f *finder) any(ctx context.Context, name string) (cli.View, error) {
	type kind struct {
		what string
		find func(context.Context, string) (cli.View, error)
	}
	kinds := []kind{{"runtime", f.findRuntime}, {"request", f.findRequest}, {"account", f.findAccount}, {"tenant", f.findTenantIfAny}}
	if !engine.ValidID(name) {
		kinds = kinds[2:3] // only a binding can have such a name
	}
	for i, k := range kinds {
		f.searches = nil
		v, err := k.find(ctx, name)
		if err != nil {
			return nil, err
		}
		if v != nil {
			if i > 0 {
				f.s.Say("%s is no runtime; it is the name of %s", name, withArticle(k.what))
			}
			return v, nil
		}
	}
	return nil, nil
}

func withArticle(word string) string {
	if word == "account" {
		return "an account"
	}
	return "a " + word
}

// unknown returns the error for a search that found nothing.
func (f *finder) unknown() *engine.Error {
	e := &engine.Error{Code: engine.CodeUnknownRuntime}
	switch {
	case f.account != "" || f.name != "" && !engine.ValidID(f.name):
		return unknownBinding(cmp.Or(f.account, f.name))
	case f.request != "":
		e.Err = fmt.Errorf("request %s is not in the ledger, not waiting, not unsettled and no dead letter", f.request)
		e.Hint = "it was never accepted, or it was forgotten with its runtime, or its id is another one"
	case f.name != "":
		e.Err = fmt.Errorf("runtime %s is in neither Redis nor the ledger, and there is no request, account or tenant of that name", f.name)
		e.Hint = "hapctl runtimes lists the known runtimes"
	default:
		e.Err, e.Hint = fmt.Errorf("runtime %s is in neither Redis nor the ledger", f.runtime), "hapctl runtimes lists the known runtimes"
	}
	for _, one := range f.searches {
		if one.Bounded {
			e.Err = fmt.Errorf("%w; searched %s", e.Err, one.text())
		}
	}
	return e
}

// findRuntime finds a runtime and the decisions about it.
func (f *finder) findRuntime(ctx context.Context, id string) (cli.View, error) {
	v, err := f.explanation(ctx, id)
	if err != nil || v.State == stateNone && len(v.Decisions)+len(v.DeadLetters)+len(v.Waiting) == 0 {
		return nil, err
	}
	v.Searches = f.searches
	return v, nil
}

func (f *finder) explanation(ctx context.Context, id string) (explanation, error) {
	detail, err := lookUpRuntime(ctx, f.s, f.cfg, id)
	if err != nil {
		return explanation{}, err
	}
	v := explanation{runtimeView: detail.runtimeView, Decisions: []explained{}, Differences: detail.Differences, Searches: []searched{}}
	for _, l := range slices.Backward(detail.Replies) {
		v.Decisions = append(v.Decisions, explained{ledgerReply: l, Why: reasons(l)})
	}
	if v.Waiting, err = readWaiting(ctx, f.s, f.cfg, waitingFilter{runtime: id}); err != nil {
		return v, err
	}
	if v.DeadLetters, err = f.letters(ctx, time.Time{}, func(l letters.Letter) bool { return l.RuntimeID == id }); err != nil {
		return v, err
	}
	if v.Binding != "" { // last: a Gardener that does not answer takes half of the time that is left
		v.Account, err = readAccount(ctx, f.s, f.cfg, v.Pool, v.Binding)
	}
	return v, err
}

// letters returns the dead letters since a time that take accepts, among the newest f.newest.
func (f *finder) letters(ctx context.Context, since time.Time, take func(letters.Letter) bool) ([]letters.Letter, error) {
	found := []letters.Letter{}
	err := letters.WithDead(ctx, f.s, f.cfg, func(all *dead.Letters) error {
		extent, err := all.Newest(ctx, since, f.newest, func(l dead.Letter) error {
			if v := letters.LetterOf(l); take(v) {
				found = append(found, v)
			}
			return nil
		})
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return nil // the other results are shown without dead letters
		}
		f.searched(events.StreamDead, extent)
		return err
	})
	return found, err
}

// mostLetters bounds how many dead letters are printed as lines.
const mostLetters = 5

// toldOfLetters returns an output line for each of the newest mostLetters dead letters, and one with the number of
// the older ones, if there are any. found must be oldest first.
func toldOfLetters(found []letters.Letter) [][2]string {
	var lines [][2]string
	for _, l := range found[max(0, len(found)-mostLetters):] {
		lines = append(lines, [2]string{"DEAD", fmt.Sprintf("request %s since %s, letter %d: %s; hapctl dead show %d",
			cmp.Or(l.RequestID, "-"), l.StoredAt.Format(time.RFC3339), l.Number, l.Code, l.Number)})
	}
	if more := len(found) - mostLetters; more > 0 {
		lines = append(lines, [2]string{"DEAD", fmt.Sprintf("and %d older ones; hapctl dead list has all", more)})
	}
	return lines
}

// queuedView shows an event that is not settled.
type queuedView struct {
	RequestID string    `json:"requestID"`
	Type      string    `json:"type"`
	RuntimeID string    `json:"runtimeID,omitempty"`
	Binding   string    `json:"binding,omitempty"`
	Published time.Time `json:"published"`
	// TakenUp says whether a worker has taken it up; nil if the consumer's state is unknown.
	TakenUp *bool `json:"takenUp,omitempty"`
	// Before is the number of earlier events that no worker has taken up either.
	Before uint64 `json:"before,omitempty"`

	state string
}

// queuedOf returns the unsettled events of a request, among the newest f.newest.
func (f *finder) queuedOf(ctx context.Context, request string) ([]queuedView, error) {
	return f.queued(ctx, time.Time{}, func(e events.Event) bool { return e.ID == request }, func(events.Subjects) map[string]uint64 {
		return map[string]uint64{">": f.newest}
	})
}

// queuedSince returns the unsettled events of a tenant since a time. The server finds those whose subject
// names the tenant, however many there are. The subject of a resolve event names none: queuedSince reads
// these events among the newest f.newest.
func (f *finder) queuedSince(ctx context.Context, since time.Time, tenant string) ([]queuedView, error) {
	return f.queued(ctx, since, func(e events.Event) bool { return e.Tenant() == tenant }, func(s events.Subjects) map[string]uint64 {
		return map[string]uint64{s.TenantEvents(tenant): streams.Everything, s.Resolve("*"): f.newest}
	})
}

// queued returns the unsettled events since a time that take accepts, in the order of their publication.
// filters returns the subjects to search, each with the number of newest sequences of the stream to search.
func (f *finder) queued(ctx context.Context, since time.Time, take func(events.Event) bool, filters func(events.Subjects) map[string]uint64) ([]queuedView, error) {
	found := []queuedView{}
	err := f.s.WithStreams(ctx, f.cfg, func(js jetstream.JetStream, subjects events.Subjects) error {
		all, extent, err := queued.Find(ctx, storage.NewLedger(js, subjects, cli.Source), since, filters(subjects), take,
			func(ctx context.Context) (*jetstream.ConsumerInfo, error) {
				return cli.WorkersConsumer(ctx, js, subjects)
			})
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		f.searched(events.StreamEvents, extent)
		for i := range all {
			e := &all[i]
			found = append(found, queuedView{
				RequestID: e.ID, Type: string(e.Type), RuntimeID: e.RuntimeID, Binding: e.Binding, Published: e.Published,
				TakenUp: e.TakenUp, Before: e.Before, state: e.State(),
			})
		}
		return nil
	})
	return found, err
}

func toldOfQueued(all []queuedView) [][2]string {
	var lines [][2]string
	for _, q := range all {
		lines = append(lines, [2]string{"NOT SETTLED", fmt.Sprintf("the %s %s, published %s: %s", q.Type, q.RequestID, q.Published.Format(time.RFC3339), q.state)})
	}
	return lines
}

// replies returns a function that appends the replies that it visits to into. It leaves out messages that cannot be
// read, and seals, which only workers exchange.
func replies(into *[]ledgerReply) func(events.Stored) error {
	return func(stored events.Stored) error {
		if stored.Foreign == nil && stored.Reply.Status != events.StatusSealed {
			*into = append(*into, ledgerReply{StoredAt: stored.Time, StreamSequence: stored.Sequence, Reply: stored.Reply})
		}
		return nil
	}
}
