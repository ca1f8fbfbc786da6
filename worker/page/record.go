package page

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker/observe"
)

const recordWithin = 3 * time.Second

// record shows a stored reply with the decision behind it.
func (p *Page) record(w http.ResponseWriter, r *http.Request) {
	from := p.sources.Load()
	if from == nil {
		p.fail(w, http.StatusServiceUnavailable, "The worker is starting and not connected to everything yet.")
		return
	}
	runtime, binding, request := r.PathValue("runtime"), r.PathValue("binding"), r.PathValue("request")
	if !engine.ValidID(request) || binding == "" && !engine.ValidID(runtime) {
		p.fail(w, http.StatusNotFound, "This is no id of a runtime or request.")
		return
	}
	subject := from.Subjects.Reply(runtime, request)
	if binding != "" {
		subject = from.Subjects.BindingReply(binding, request)
	}
	ctx, cancel := context.WithTimeout(r.Context(), recordWithin)
	defer cancel()
	stored, found, err := from.Ledger.Last(ctx, subject)
	switch {
	case err != nil:
		p.fail(w, http.StatusServiceUnavailable, "The ledger cannot be read: "+err.Error())
	case !found || stored.Foreign != nil || stored.Reply.Status == events.StatusSealed:
		p.fail(w, http.StatusNotFound, fmt.Sprintf("There is no reply to request %s for %s: it has none yet, or its replies "+
			"were purged after the runtime was released.", request, cmp.Or(runtime, binding)))
	default:
		if binding != "" && stored.Reply.Binding == nil { // of a release that was rejected
			stored.Reply.Binding = &events.Binding{Name: binding}
		}
		p.write(w, http.StatusOK, view{
			Title: "Record of " + cmp.Or(runtime, binding), Body: "record", Data: stored, Taken: p.now(),
		})
	}
}

// outcomeText describes the outcome of an event that was not answered, or not settled.
func outcomeText(t trouble) string {
	switch t.Outcome {
	case observe.DeadLetter:
		return "dead letter"
	case observe.Lost:
		return "lost: no room in HAP_DEAD"
	default:
		return "comes again"
	}
}

func reasonText(reason string) string {
	switch events.WaitingReason(reason) {
	case events.WaitingPoolEmpty:
		return "the pool is empty"
	case events.WaitingNetworkFull:
		return "no network range is free"
	case events.WaitingNetworkMissing:
		return "there are no network rules"
	case events.WaitingUnavailable:
		return "Gardener does not answer or refuses the label"
	default:
		return reason
	}
}

// verdictText says why an account was chosen or not.
func verdictText(verdict string) string {
	switch account.Verdict(verdict) {
	case account.Chosen:
		return "chosen"
	case account.AtLimit:
		return "at its limit"
	case account.LessFitting:
		return "another one of the tenant's comes first, or is in use and the tenant may have only one"
	case account.BarredHere:
		return "cordoned, internal, dirty, being deleted or a duplicate"
	case account.HeldByOther:
		return "another tenant's, or to be cleaned"
	case account.MoreClusters:
		return "another one has fewer clusters"
	default:
		return verdict
	}
}
