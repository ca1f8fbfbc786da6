package checker

import (
	"time"

	"github.com/hap-worker/hap-worker/events"
)

// Watched are the observations of a run: facts that the final state does not show.
type Watched struct {
	// Labels are the successive states of each binding's labels; neighbours differ.
	Labels map[string][]Label
	// Stored are the replies in the order of the stream, including those that were replaced on their subject.
	Stored []events.Stored
	// Departed is when the first deprovision of a runtime was about to be published.
	Departed map[string]time.Time
	// Clusters are the Shoots that existed.
	Clusters []Cluster
}

// Label is one state of a binding's labels.
type Label struct {
	At         time.Time // when the state was first seen; it may have begun earlier
	Tenant     string
	Dirty      bool
	Generation int64
}

// Cluster is a Shoot, which is created after its runtime's answer.
type Cluster struct {
	Runtime string
	Binding string
	Gone    time.Time // when its deletion began; zero while it is there
}

// claim is one claim of a binding.
type claim struct {
	binding    string
	generation int64
}

// overTime checks the observations (I3, I5, I7).
func (f Facts) overTime(bad report) {
	if f.Watched == nil {
		return
	}
	w := f.Watched
	w.finals(bad)
	answered := w.answered(bad)
	for binding, labels := range w.Labels {
		for i := 1; i < len(labels); i++ {
			w.change(binding, labels[i-1], labels[i], answered, bad)
		}
	}
	w.dirtied(answered, bad)
}

// finals checks that no reply was stored after a final one on its subject (I7).
func (w *Watched) finals(bad report) {
	final := map[string]events.Status{}
	for _, s := range w.Stored {
		if was, ok := final[s.Subject]; ok {
			bad("I7 OneAnswer", "%s was answered %s, and %s at sequence %d", s.Subject, was, s.Reply.Status, s.Sequence)
		}
		if s.Reply.Final() {
			final[s.Subject] = s.Reply.Status
		}
	}
}

// lodger is a runtime that was assigned to a claim of a binding.
type lodger struct {
	runtime string
	tenant  string
	at      time.Time // when the answer was stored
}

// answered returns the runtimes of each claim, and checks that a claim served one tenant only (I3).
func (w *Watched) answered(bad report) map[claim][]lodger {
	out := map[claim][]lodger{}
	for _, s := range w.Stored {
		r := s.Reply
		if r.Status != events.StatusAssigned || r.Binding.Shared {
			continue
		}
		c := claim{r.Binding.Name, r.Binding.Generation}
		for _, l := range out[c] {
			if l.tenant != r.GlobalAccountID {
				bad("I3 OneTenant", "claim %d of %s was answered to %s of %s and to %s of %s",
					c.generation, c.binding, l.runtime, l.tenant, r.RuntimeID, r.GlobalAccountID)
			}
		}
		out[c] = append(out[c], lodger{r.RuntimeID, r.GlobalAccountID, s.Time})
	}
	return out
}

// change checks one change of a binding's labels (I3).
func (w *Watched) change(binding string, was, is Label, answered map[claim][]lodger, bad report) {
	switch {
	case was.Tenant != "" && is.Tenant != "" && was.Tenant != is.Tenant:
		bad("I3 OneTenant", "%s went from %s to %s without a release", binding, was.Tenant, is.Tenant)
	case was.Dirty && !is.Dirty && is.Tenant != "":
		bad("I3 OneTenant", "%s of %s went from dirty to clean and kept its tenant", binding, is.Tenant)
	case was.Tenant != "" && !was.Dirty && is.Tenant == "":
		if on := answered[claim{binding, was.Generation}]; len(on) > 0 {
			bad("I3 OneTenant", "%s lost its tenant %s without having been dirty; runtime %s was answered with that claim", binding, was.Tenant, on[0].runtime)
		}
	case is.Generation < was.Generation:
		bad("I3 OneTenant", "%s went from generation %d back to %d", binding, was.Generation, is.Generation)
	case was.Tenant == "" && is.Tenant != "" && is.Generation == was.Generation && was.Generation > 0:
		bad("I3 OneTenant", "%s was claimed for %s under the generation %d of the claim before", binding, is.Tenant, is.Generation)
	}
	for _, l := range answered[claim{binding, is.Generation}] {
		if is.Tenant != "" && l.tenant != is.Tenant {
			bad("I3 OneTenant", "claim %d of %s is labelled %s and was answered to %s of %s", is.Generation, binding, is.Tenant, l.runtime, l.tenant)
		}
	}
}

// dirtied checks that a binding became dirty only after the deprovisions of all its runtimes were published and
// the deletion of their Shoots had begun (I5).
func (w *Watched) dirtied(answered map[claim][]lodger, bad report) {
	for binding, labels := range w.Labels {
		for i, label := range labels {
			if !label.Dirty || (i > 0 && labels[i-1].Dirty && labels[i-1].Generation == label.Generation) {
				continue
			}
			on := map[string]bool{}
			for _, l := range answered[claim{binding, label.Generation}] {
				on[l.runtime] = true
				left, gone := w.Departed[l.runtime]
				if !gone || left.After(label.At) {
					bad("I5 NoDirty", "%s was dirty at %s (claim %d) while runtime %s, answered at %s, was on it",
						binding, stamp(label.At), label.Generation, l.runtime, stamp(l.at))
				}
			}
			for _, c := range w.Clusters {
				if c.Binding == binding && on[c.Runtime] && (c.Gone.IsZero() || c.Gone.After(label.At)) {
					bad("I5 NoDirty", "%s was dirty at %s (claim %d) under the Shoot of runtime %s", binding, stamp(label.At), label.Generation, c.Runtime)
				}
			}
		}
	}
}

func stamp(t time.Time) string { return t.UTC().Format("15:04:05.000") }
