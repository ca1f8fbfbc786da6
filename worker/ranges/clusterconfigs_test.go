package ranges

import (
	"context"
	"errors"
	"testing"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/network"
)

// heldNotes are ClusterConfigs of a runtime that is gone, which a finalizer holds.
type heldNotes struct {
	Notes
	removed int
}

func (h *heldNotes) Write(context.Context, network.Note) (network.Noted, error) {
	return network.Noted{Taken: []network.Taken{{Object: "ClusterConfig x", By: "rt-gone"}}}, nil
}

func (h *heldNotes) Remove(context.Context, network.Note) (int, error) {
	h.removed++
	return 1, nil
}

// TestTerminatingClusterConfig: while a finalizer holds the ClusterConfig of a runtime that is gone, each attempt
// removes it once, and the queue tries again later.
func TestTerminatingClusterConfig(t *testing.T) {
	t.Parallel()
	notes := &heldNotes{}
	c := &ClusterConfigs{Notes: notes, Runtime: func(_ context.Context, id string) (account.Place, account.Runtime, error) {
		return account.Place{Gone: id == "rt-gone"}, account.Runtime{}, nil
	}}
	if _, err := c.write(t.Context(), network.Note{Runtime: "rt-new"}); !errors.Is(err, engine.ErrConflict) || notes.removed != 1 {
		t.Errorf("removed %d times: %v", notes.removed, err)
	}
}
