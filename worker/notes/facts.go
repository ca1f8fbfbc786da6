package notes

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// Observer returns an observer that queues notes about claims and releases, also about refused and revoked ones.
func (n *Notes) Observer() observe.Observer {
	return observe.Observer{
		OnClaim: func(_ context.Context, c observe.Claim) {
			switch {
			case c.Result == observe.ClaimWritten:
				n.note(same{binding: c.Binding, reason: engine.NoteClaimed, message: fmt.Sprintf("claimed in pool %s, for runtime %s", c.Pool, c.Runtime)})
			case c.Result == observe.ClaimRevoked:
				n.note(same{binding: c.Binding, reason: engine.NoteClaimRevoked, message: "a claim was revoked: the account is another tenant's, dirty, internal, cordoned, in another pool or being deleted"})
			case errors.Is(c.Err, engine.ErrRefused):
				n.note(same{binding: c.Binding, reason: engine.NoteClaimRefused, message: "the API refuses claims of this account"})
			}
		},
		OnEvent: func(_ context.Context, e observe.Event) {
			if e.Type != string(events.TypeRelease) {
				return
			}
			binding, err := engine.FromToken(e.Subject[strings.LastIndexByte(e.Subject, '.')+1:])
			if err != nil {
				return
			}
			switch {
			case e.Status == string(events.StatusReturned):
				n.note(same{binding: binding, reason: engine.NoteReleased, message: "cleaned and free again, by request " + e.ID})
			case e.Status == string(events.StatusRejected):
				n.note(same{binding: binding, reason: engine.NoteReleaseRefused, message: "a release was refused: " + string(e.Code)})
			}
		},
	}
}

// marks are the labels whose changes cause notes.
type marks struct{ dirty, cordoned bool }

// Changed queues a note if a binding has become dirty, cordoned or uncordoned since the last call with that binding. b
// is the binding from the watch, or its last state if it was deleted. Every worker sees the change; the notes of
// all workers have the same name, so Kubernetes stores one.
func (n *Notes) Changed(b engine.Binding, deleted bool) {
	is := marks{b.Dirty, b.Cordoned}
	n.mu.Lock()
	was, known := n.marks[b.Name]
	n.marks[b.Name] = is
	if deleted {
		delete(n.marks, b.Name)
	}
	n.mu.Unlock()
	if !known || deleted {
		return
	}
	changed := func(reason engine.NoteReason, message string) {
		n.note(same{binding: b.Name, reason: reason, message: message, version: b.ResourceVersion})
	}
	if is.dirty && !was.dirty {
		changed(engine.NoteDirty, "marked dirty: to be cleaned, and then released")
	}
	switch {
	case is.cordoned && !was.cordoned:
		changed(engine.NoteCordoned, "kept from new assignments")
	case was.cordoned && !is.cordoned:
		changed(engine.NoteUncordoned, "may have new assignments again")
	}
}

// nameOf returns the name of a note in Kubernetes. If what has the binding's version, all workers compute the
// same name for the change. Otherwise the time makes the name unique.
func nameOf(what same, now time.Time) string {
	const longest = 253 - 17
	hash := fnv.New64a()
	fmt.Fprintf(hash, "%s\n%s\n%s\n", what.reason, what.message, what.version)
	if what.version == "" {
		fmt.Fprintf(hash, "%d", now.UnixNano())
	}
	return fmt.Sprintf("%s.%016x", strings.TrimRight(what.binding[:min(len(what.binding), longest)], "-."), hash.Sum64())
}
