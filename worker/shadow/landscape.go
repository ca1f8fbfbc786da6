package shadow

import (
	"context"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker"
)

// Gardener reads Gardener and writes nothing: its writes succeed, and return the binding that would result.
// The next read returns the broker's labels.
type Gardener struct{ worker.Gardener }

// Claim returns the binding as the claim would leave it.
func (Gardener) Claim(_ context.Context, seen engine.Binding, mark engine.Mark) (engine.Binding, error) {
	return marked(seen, mark), nil
}

// MarkDirty returns the binding as the mark would leave it.
func (Gardener) MarkDirty(_ context.Context, seen engine.Binding, mark engine.Mark) (engine.Binding, error) {
	seen = marked(seen, mark)
	seen.Dirty = true
	return seen, nil
}

// Unclaim returns the binding as it would be without its tenant.
func (Gardener) Unclaim(_ context.Context, seen engine.Binding, mark engine.Mark) (engine.Binding, error) {
	mark.Tenant = ""
	return marked(seen, mark), nil
}

// Free returns the binding as the release would leave it.
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
