package page

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// answer is a reply of the ledger as a list shows it.
type answer struct{ storage.Fact }

func (s *Sources) answersOf(facts []storage.Fact) []answer {
	out := make([]answer, len(facts))
	for i, f := range facts {
		out[i] = s.addressed(f)
	}
	return out
}

// addressed converts a fact to an answer. If the fact names no runtime, it takes the binding from the fact's
// subject, since the reply to a rejected release names its binding only there.
func (s *Sources) addressed(f storage.Fact) answer {
	if at, err := s.Subjects.ParseReply(f.Subject); err == nil && f.RuntimeID == "" {
		f.Binding = at.Binding
	}
	return answer{f}
}

// told converts a stored reply to a fact.
func told(s events.Stored) storage.Fact {
	f := storage.FactOf(s.Reply)
	f.Subject, f.Time, f.Position = s.Subject, s.Time, s.Sequence
	return f
}

func newestFirst(a, b answer) int { return b.Time.Compare(a.Time) }

// releasesOf returns the newest repliesShown replies to the release events of a binding, newest first. It skips seals
// and replies that cannot be decoded.
func (s *Sources) releasesOf(ctx context.Context, binding string) ([]answer, error) {
	var all []answer
	err := s.Ledger.Under(ctx, s.Subjects.BindingReplies(binding), func(stored events.Stored) error {
		if stored.Foreign == nil && stored.Reply.Status != events.StatusSealed {
			all = append(all, s.addressed(told(stored)))
		}
		return nil
	})
	slices.SortFunc(all, newestFirst)
	return all[:min(repliesShown, len(all))], err
}

// Record is the URL of the page of the whole reply, "" if it has none.
func (a answer) Record() string {
	switch {
	case a.RuntimeID != "":
		return recordOf(a.RuntimeID, a.RequestID)
	case a.Binding != "":
		return "/records/binding/" + url.PathEscape(a.Binding) + "/" + url.PathEscape(a.RequestID)
	default:
		return ""
	}
}

func recordOf(runtime, request string) string {
	return "/records/" + url.PathEscape(runtime) + "/" + url.PathEscape(request)
}

// Fine reports whether the publisher got a final reply without an error.
func (a answer) Fine() bool { return a.Code == "" && a.Status != events.StatusWaiting }

// Took is the time from the publication of the request to the stored answer, 0 if the former is unknown or later.
func (a answer) Took() time.Duration {
	if a.Published.IsZero() || a.Published.After(a.Time) {
		return 0
	}
	return a.Time.Sub(a.Published)
}

// linkTo returns the URL of the page of a name. It returns "" if the name is empty, or if kind is runtimes or
// tenants and the name is no valid id.
func linkTo(kind, name string) string {
	switch {
	case name == "", (kind == "runtimes" || kind == "tenants") && !engine.ValidID(name):
		return ""
	default:
		return "/" + kind + "/" + url.PathEscape(name)
	}
}

// trouble is an event that this worker could not answer, could not settle or could not store as a dead letter.
type trouble struct{ done }

// troubles returns at most n troubles, newest first, among the events that Recent remembers. It leaves out events
// that this worker has answered since.
func (r *Recent) troubles(n int) []trouble {
	var out []trouble
	answered := map[[3]string]bool{}
	for _, d := range r.events(keepEvents) {
		request := [3]string{d.ID, d.Runtime, d.Binding}
		answered[request] = answered[request] || d.ID != "" && (d.Outcome == observe.Ack || d.Outcome == observe.Served)
		if answered[request] {
			continue
		}
		stuck := d.Outcome == observe.NakWithDelay || d.Outcome == observe.Unsettled || d.Outcome == observe.Lost || d.Outcome == observe.DeadLetter && d.Status == ""
		if stuck && len(out) < n {
			out = append(out, trouble{d})
		}
	}
	return out
}

// Name is the runtime, binding or id that the event is about.
func (t trouble) Name() string { return cmp.Or(t.Runtime, t.Binding, t.ID) }
