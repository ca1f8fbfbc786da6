package request

import (
	"context"
	"errors"
	"fmt"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/cmd/hapctl/view"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker/config"
)

// errKnown stops the reading of a runtime's replies at the first one.
var errKnown = errors.New("the runtime is known")

// doubts returns a reason to ask the user before the request e is published, "" for none.
type doubts func(ctx context.Context, r *Requester, e events.Event) (doubt string)

// settleDoubt tells the user why a request may be wrong and what it would do. On a terminal it asks whether to go
// on, and returns an error if the user declines. Without a terminal it returns nil. With yes, or if the request
// has been answered under this id, it neither checks nor asks.
func (r *Requester) settleDoubt(ctx context.Context, e events.Event, given, yes bool) error {
	if r.doubts == nil || yes {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	if _, answered := r.answered(ctx, given, view.PendingOf(e, r.Subjects).Subject); answered {
		return nil // a repeated request has no further effect
	}
	doubt := r.doubts(ctx, r, e)
	if doubt == "" {
		return nil
	}
	r.Shell.Say("%s", doubt)
	if !cli.Terminal(r.Shell.Stdin) {
		return nil
	}
	return r.Shell.Ask(ctx, fmt.Sprintf("publish the %s all the same", e.Type))
}

// unknownToLedger doubts the deprovision of a runtime that has no reply in the ledger, apart from sealed
// ones. It also doubts if the ledger cannot be read.
func unknownToLedger(ctx context.Context, r *Requester, e events.Event) string {
	err := r.Ledger.OfRuntime(ctx, e.Deprovision.RuntimeID, func(stored events.Stored) error {
		if stored.Reply.Status == events.StatusSealed {
			return nil
		}
		return errKnown // a reply that cannot be read counts too
	})
	switch {
	case errors.Is(err, errKnown):
		return ""
	case err != nil:
		return "could not check whether the ledger knows the runtime: " + cli.OneLineOf(err)
	}
	return fmt.Sprintf("the ledger has no reply about runtime %s: a worker will answer released, and give an account back only if it counts a Shoot of the runtime; "+
		"a provision that arrives later is refused", e.Deprovision.RuntimeID)
}

// notToRelease doubts the release of an account that does not exist or is not dirty. It also doubts a
// release without a generation if the account was claimed more than once. Without a terminal, it reads Gardener
// only if the configuration has the section gardener, and otherwise has no doubt: a script needs only NATS.
func notToRelease(cfg *config.Config) doubts {
	return func(ctx context.Context, r *Requester, e events.Event) string {
		if !cli.Terminal(r.Shell.Stdin) && !cfg.Given("gardener") {
			return ""
		}
		ctx, cancel := context.WithTimeout(ctx, cli.ConnectWithin)
		defer cancel()
		client, tell, err := cli.OpenGardener(ctx, r.Shell, cfg.Gardener)
		if err != nil {
			return notLookedAt(r, e, err)
		}
		defer tell()
		b, err := client.Get(ctx, e.Release.Binding)
		switch {
		case engine.CodeOf(err) == engine.CodeUnknownBinding:
			return fmt.Sprintf("binding %s is not in Gardener: the release is refused as %s", e.Release.Binding, engine.CodeUnknownBinding)
		case err != nil:
			return notLookedAt(r, e, err)
		case !b.Dirty:
			return fmt.Sprintf("binding %s is not marked dirty: the release is refused as %s, unless it is marked before", e.Release.Binding, engine.CodeNotDirty)
		case e.Release.Generation == nil && b.Generation > 1:
			return fmt.Sprintf("binding %s was claimed more than once: the release is refused as %s; once the account is clean, add --generation %d",
				e.Release.Binding, engine.CodeStaleRelease, b.Generation)
		}
		return ""
	}
}

// notLookedAt returns a doubt only if Gardener belongs to another landscape. Any other error is only shown: a
// release needs NATS alone.
func notLookedAt(r *Requester, e events.Event, err error) string {
	text := fmt.Sprintf("could not check binding %s: %s", e.Release.Binding, cli.OneLineOf(err))
	if _, foreign := errors.AsType[*engine.ForeignError](err); foreign {
		return text
	}
	r.Shell.Say("%s", text)
	return ""
}
