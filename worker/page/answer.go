package page

import (
	"cmp"
	"net/url"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// answer is a reply of the ledger as a list shows it.
type answer struct{ events.Fact }

func answersOf(facts []events.Fact) []answer {
	out := make([]answer, len(facts))
	for i, f := range facts {
		out[i] = answer{f}
	}
	return out
}

// told converts a stored reply.
func told(s events.Stored) answer {
	f := s.Reply.Fact()
	f.Time, f.Position = s.Time, s.Sequence
	return answer{f}
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

// Fine reports whether the publisher got an answer without an error.
func (a answer) Fine() bool { return a.Code == "" && a.Status != events.StatusWaiting }

// Took is the time from the request to the stored answer, 0 if unknown.
func (a answer) Took() time.Duration {
	if a.Published.IsZero() || a.Published.After(a.Time) {
		return 0
	}
	return a.Time.Sub(a.Published)
}

// linkTo returns the URL of a name's page, "" if the name is invalid there.
func linkTo(kind, name string) string {
	switch {
	case name == "", (kind == "runtimes" || kind == "tenants") && !engine.ValidID(name):
		return ""
	default:
		return "/" + kind + "/" + url.PathEscape(name)
	}
}

// trouble is an event that this worker could not answer.
type trouble struct{ done }

// troubles returns the last n such events at most, newest first.
func (r *Recent) troubles(n int) []trouble {
	var out []trouble
	for _, d := range r.events(keepEvents) {
		stuck := d.Outcome == observe.NakWithDelay || d.Outcome == observe.Unsettled || d.Outcome == observe.Lost || d.Outcome == observe.DeadLetter && d.Status == ""
		if stuck && len(out) < n {
			out = append(out, trouble{d})
		}
	}
	return out
}

// Name is the runtime, binding or id that the event is about.
func (t trouble) Name() string { return cmp.Or(t.Runtime, t.Binding, t.ID) }
