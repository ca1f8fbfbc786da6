package rebuild

import (
	"context"
	"fmt"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

// Read counts the messages that Gather has read from the ledger.
type Read struct {
	Replies int
	Foreign int // messages that could not be read
}

// Gather reads the sources of pools and directory, in the required order (rule 13c): the ledger to its end,
// then the labels, then the Shoots.
func Gather(ctx context.Context, archive Ledger, census Inventory) (*account.Gathering, Read, error) {
	g, read := account.NewGathering(), Read{}
	err := archive.Facts(ctx, func(f storage.Fact) error {
		if f.Foreign != nil {
			read.Foreign++ // if this is an assignment, the runtime's Shoot shows it below
			return nil     //nolint:nilerr // it is passed over, and counted
		}
		read.Replies++
		g.Answer(f.Answer())
		return nil
	})
	if err != nil {
		return nil, read, fmt.Errorf("read the ledger: %w", err)
	}
	err = census.List(ctx, func(b engine.Binding) error {
		g.Binding(b)
		return nil
	})
	if err != nil {
		return nil, read, fmt.Errorf("list the bindings: %w", err)
	}
	if err = census.EachShoot(ctx, g.NoShoots, g.Shoot); err != nil {
		return nil, read, fmt.Errorf("list the Shoots: %w", err)
	}
	return g, read, nil
}
