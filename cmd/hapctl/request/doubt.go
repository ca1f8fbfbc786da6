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

// errKnown ends the reading of a runtime's replies with the first one.
var errKnown = errors.New("the runtime is known")

// doubts are what is worth asking about before a request is published.
type doubts func(ctx context.Context, r *Requester, e events.Event) (doubt string)

// settleDoubt tells of a request that is about something unknown, and what follows. A person
// on a terminal is asked; a script goes on.
func (r *Requester) settleDoubt(ctx context.Context, e events.Event, given, yes bool) error {
	if r.doubts == nil || yes {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	if _, answered := r.answered(ctx, given, view.PendingOf(e, r.Subjects).Subject); answered {
		return nil // nothing happens twice
	}
	doubt := r.doubts(ctx, r, e)
	if doubt == "" {
		return nil
	}
	r.S.Say("%s", doubt)
	if !cli.Terminal(r.S.Stdin) {
		return nil
	}
	return r.S.Ask(fmt.Sprintf("publish the %s all the same", e.Type))
}

// unknownToLedger is about the deprovision of a runtime that was never answered.
func unknownToLedger(ctx context.Context, r *Requester, e events.Event) string {
	err := r.Ledger.OfRuntime(ctx, e.Deprovision.RuntimeID, func(stored events.Stored) error {
		if stored.Reply.Status == events.StatusSealed {
			return nil
		}
		return errKnown // also by what cannot be read
	})
	switch {
	case errors.Is(err, errKnown):
		return ""
	case err != nil:
		return "whether the ledger knows the runtime was not seen: " + cli.OneLineOf(err)
	}
	return fmt.Sprintf("the ledger has no reply about runtime %s: it is answered as released, and unless a Shoot of it is counted nothing is given back; "+
		"a provision of it that is still on its way is refused", e.Deprovision.RuntimeID)
}

// notToRelease is about the release of an account that is not there, or not dirty, or whose claim
// is not named. Scripts need NATS only: for them Gardener is asked where the configuration names it.
func notToRelease(cfg *config.Config) doubts {
	return func(ctx context.Context, r *Requester, e events.Event) string {
		if !cli.Terminal(r.S.Stdin) && !cfg.Given("gardener") {
			return ""
		}
		ctx, cancel := context.WithTimeout(ctx, cli.ConnectWithin)
		defer cancel()
		client, tell, err := cli.OpenGardener(ctx, r.S, cfg.Gardener)
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

// notLookedAt is a doubt only where Gardener is another landscape's: without one a release
// needs NATS alone.
func notLookedAt(r *Requester, e events.Event, err error) string {
	text := fmt.Sprintf("binding %s was not looked at: %s", e.Release.Binding, cli.OneLineOf(err))
	if _, foreign := errors.AsType[*engine.ForeignError](err); foreign {
		return text
	}
	r.S.Say("%s", text)
	return ""
}
