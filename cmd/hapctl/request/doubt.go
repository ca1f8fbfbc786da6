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

// errKnown stops the reading of a runtime's replies at the first one that is not sealed.
var errKnown = errors.New("the runtime is known")

// doubts returns a reason to ask the user before the request e is published, "" for none. With an error, the request
// must not be published.
type doubts func(ctx context.Context, r *Requester, e events.Event) (doubt string, err error)

// settleDoubt tells the user why a request may be wrong and what it would do. On a terminal it asks whether to go
// on, and returns an error if the user declines. Without a terminal it does not ask. With yes, or if the request
// has been answered under this id, it neither checks nor asks. It returns the error of the check.
func (r *Requester) settleDoubt(ctx context.Context, e events.Event, given, yes bool) error {
	if r.doubts == nil || yes {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	if _, answered := r.answered(ctx, given, view.PendingOf(e, r.Subjects).Subject); answered {
		return nil // a repeated request has no further effect
	}
	doubt, err := r.doubts(ctx, r, e)
	if err != nil || doubt == "" {
		return err
	}
	r.Shell.Say("%s", doubt)
	r.Shell.Announce(fmt.Sprintf("publish the %s", e.Type))
	if !cli.Terminal(r.Shell.Stdin) {
		return nil
	}
	return r.Shell.Ask(ctx, fmt.Sprintf("publish the %s all the same", e.Type))
}

// unknownToLedger doubts the deprovision of a runtime that has no reply in the ledger, apart from sealed
// ones. It also doubts if the ledger cannot be read.
func unknownToLedger(ctx context.Context, r *Requester, e events.Event) (string, error) {
	err := r.Ledger.OfRuntime(ctx, e.Deprovision.RuntimeID, func(stored events.Stored) error {
		if stored.Reply.Status == events.StatusSealed {
			return nil
		}
		return errKnown // a reply that cannot be read counts too
	})
	switch {
	case errors.Is(err, errKnown):
		return "", nil
	case err != nil:
		return "could not check whether the ledger knows the runtime: " + cli.OneLineOf(err), nil
	}
	return fmt.Sprintf("the ledger has no reply about runtime %s: a worker will answer released, and give an account back only if it counts a Shoot of the runtime; "+
		"a provision that arrives later is refused", e.Deprovision.RuntimeID), nil
}

// notToRelease doubts the release of an account that does not exist, is not dirty or has another uid. It also doubts
// a release without a generation if the account was claimed more than once. Without a terminal, it reads Gardener
// only if --context or the configuration names it, and otherwise has no doubt: a script needs only NATS.
func notToRelease(cfg *config.Config) doubts {
	return func(ctx context.Context, r *Requester, e events.Event) (string, error) {
		if !cli.Terminal(r.Shell.Stdin) && r.Shell.Connections.Context == "" && !cfg.Given("gardener") {
			return "", nil
		}
		ctx, cancel := context.WithTimeout(ctx, cli.ConnectWithin)
		defer cancel()
		client, tell, err := cli.OpenGardener(ctx, r.Shell, cfg.Gardener)
		if err != nil {
			return notLookedAt(r, e, err)
		}
		defer tell()
		b, err := client.Get(ctx, e.Release.Binding)
		if err != nil && engine.CodeOf(err) != engine.CodeUnknownBinding {
			return notLookedAt(r, e, err)
		}
		return whyNotReleased(e.Release, b, err == nil), nil
	}
}

// whyNotReleased returns why a worker will refuse to release the binding, as far as the labels show it; "" if they
// show no reason. exists is false if Gardener does not have the binding.
func whyNotReleased(asked *events.Release, b engine.Binding, exists bool) string {
	switch {
	case !exists:
		return fmt.Sprintf("binding %s is not in Gardener: the release is refused as %s", asked.Binding, engine.CodeUnknownBinding)
	case asked.UID != "" && asked.UID != b.UID:
		return fmt.Sprintf("binding %s has uid %s, so it was deleted and created again since: the release is refused as %s", asked.Binding, b.UID, engine.CodeStaleRelease)
	case !b.Dirty:
		return fmt.Sprintf("binding %s is not marked dirty: the release is refused as %s, unless it is marked before", asked.Binding, engine.CodeNotDirty)
	case asked.Generation == nil && b.Generation > 1:
		return fmt.Sprintf("binding %s was claimed more than once: the release is refused as %s; once the account is clean, add --generation %d",
			asked.Binding, engine.CodeStaleRelease, b.Generation)
	}
	return ""
}

// notLookedAt shows why the binding could not be read: a release needs NATS alone. It returns the error only if
// Gardener belongs to another landscape.
func notLookedAt(r *Requester, e events.Event, err error) (string, error) {
	if _, foreign := errors.AsType[*engine.ForeignError](err); foreign {
		return "", err
	}
	r.Shell.Say("could not check binding %s: %s", e.Release.Binding, cli.OneLineOf(err))
	return "", nil
}
