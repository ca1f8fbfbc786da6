package shadow

import (
	"context"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker"
)

// Gardener reads Gardener and writes nothing: its writes succeed, and return the binding with what they would have
// written, except ClaimedIn and a new ResourceVersion. The next read returns the broker's labels.
type Gardener struct{ worker.Gardener }

// Claim returns the binding with the mark.
func (Gardener) Claim(_ context.Context, seen engine.Binding, mark engine.Mark) (engine.Binding, error) {
	return marked(seen, mark), nil
}

// MarkDirty returns the binding with the mark, dirty.
func (Gardener) MarkDirty(_ context.Context, seen engine.Binding, mark engine.Mark) (engine.Binding, error) {
	seen = marked(seen, mark)
	seen.Dirty = true
	return seen, nil
}

// Unclaim returns the binding with the mark, but without a tenant.
func (Gardener) Unclaim(_ context.Context, seen engine.Binding, mark engine.Mark) (engine.Binding, error) {
	mark.Tenant = ""
	return marked(seen, mark), nil
}

// Free returns the binding without a tenant, clean, and released by the request.
func (Gardener) Free(_ context.Context, seen engine.Binding, request string) (engine.Binding, error) {
	seen.Tenant, seen.Dirty, seen.ReleasedBy = "", false, request
	return seen, nil
}

func marked(b engine.Binding, mark engine.Mark) engine.Binding {
	b.Tenant, b.Generation, b.Epoch = mark.Tenant, mark.Generation, mark.Epoch
	return b
}

// NoCopies sends no copies of replies: a receiver would take one for the broker's answer.
type NoCopies struct{}

// Copy does nothing.
func (NoCopies) Copy(context.Context, string, events.Reply) error { return nil }
