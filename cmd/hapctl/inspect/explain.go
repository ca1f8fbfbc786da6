// Package inspect implements the commands of hapctl that show and explain the state: pools, bindings,
// runtimes, waiting and explain.
package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/cmd/hapctl/letters"
	"github.com/hap-worker/hap-worker/cmd/hapctl/view"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker/config"
)

// explanation describes a runtime and explains the decisions about it. docs/hapctl.md documents its fields.
type explanation struct {
	runtimeView
	Account     *view.Binding    `json:"account,omitempty"`
	Waiting     []waitingView    `json:"waiting"`
	Decisions   []explained      `json:"decisions"` // the highest decision number first
	Differences []string         `json:"differences"`
	DeadLetters []letters.Letter `json:"deadLetters"`
	Searches    []searched       `json:"searches"`
}

// explained is a reply with its explanation.
type explained struct {
	ledgerReply
	Why []reason `json:"why"`
}

// reason is one sentence and its subject.
type reason struct {
	About string `json:"about"`
	Text  string `json:"text"`
}

func (v explanation) Show(w io.Writer, wide bool) {
	lines := [][2]string{{"RUNTIME", v.RuntimeID}, {"STATE", v.said()}}
	if a := v.Account; a != nil {
		lines = append(lines, [2]string{"ACCOUNT", accountText(a)})
	}
	for _, text := range v.Differences {
		lines = append(lines, [2]string{"DIFFERENCE", text})
	}
	for i := range v.Waiting {
		lines = append(lines, v.Waiting[i].told()...)
	}
	lines = append(lines, toldOfLetters(v.DeadLetters)...)
	cli.Pairs(w, append(lines, toldOfSearches(v.Searches, false)...))
	for _, d := range v.Decisions {
		d.Show(w, wide)
	}
}

// Show writes a decision and its reasons.
func (d explained) Show(w io.Writer, wide bool) {
	fmt.Fprintf(w, "\n%s\n", d.title())
	lines := [][2]string{}
	about := ""
	for _, r := range d.Why {
		if !wide && (r.About == aboutSelector) {
			continue
		}
		name := strings.ToUpper(r.About)
		if r.About == about {
			name = "" // said above
		}
		about = r.About
		lines = append(lines, [2]string{"  " + name, r.Text})
	}
	cli.Pairs(w, lines)
}

// said returns the state as a sentence.
func (v explanation) said() string {
	text := string(v.State)
	switch v.State {
	case account.RuntimeAssigned:
		text = fmt.Sprintf("assigned to %s in pool %s", v.Binding, v.Pool)
	case account.RuntimeWaiting:
		text = "waits for an account of pool " + v.Pool
	case account.RuntimeGone:
		text = "gone: deprovisioned"
		if v.Binding != "" {
			text += ", it was on " + v.Binding + " in pool " + v.Pool
		}
	case account.RuntimeMoved:
		text = "on its way from pool " + v.Pool + " to the pool that its rule names now"
	case account.RuntimeRefused:
		text = "refused: it found no account in pool " + v.Pool
	case stateNone:
		text = "has nothing: Redis does not know it, the ledger does"
		if len(v.Decisions) == 0 {
			text = "has nothing: neither Redis nor the ledger knows it"
		}
	}
	if v.Tenant != "" {
		text += ", tenant " + v.Tenant
	}
	return text
}

func accountText(a *view.Binding) string {
	clusters := view.ClustersText(a.Clusters.N)
	if a.Clusters.Unknown {
		clusters = a.Clusters.String() + " clusters"
	}
	text := fmt.Sprintf("%s is %s with %s", a.Name, a.Standing, clusters)
	switch g := a.Gardener; {
	case g == nil:
		return text
	case g.Tenant == "":
		text += "; its label names no tenant"
	default:
		text += "; its label names tenant " + g.Tenant
	}
	if a.Gardener.Generation > 0 {
		text += fmt.Sprintf(", generation %d", a.Gardener.Generation)
	}
	if marks := a.Marks(); marks != "" {
		text += "; " + marks
	}
	return text
}

// title returns the line above a decision.
func (d explained) title() string {
	text := fmt.Sprintf("%s: %s at %s", d.Reply.RequestID, d.Reply.Status, d.StoredAt.UTC().Format(time.RFC3339))
	if n := sequenceOf(d.Reply); n > 0 {
		text += fmt.Sprintf(", decision %d", n)
	}
	if d.InForce {
		text += ", in force"
	}
	return text
}

// readAccount reads one account from Redis and Gardener. If Gardener cannot be read in half of the time that is left, it
// tells the user and returns nil, so that the rest of the answer is still shown; but if Gardener belongs to another
// landscape, it returns an error.
func readAccount(ctx context.Context, s *cli.Shell, cfg *config.Config, pool, name string) (*view.Binding, error) {
	store, err := cli.OpenRedis(ctx, s, cfg)
	if err != nil {
		return nil, err
	}
	rec, err := store.Binding(ctx, pool, name)
	if err != nil {
		return nil, err
	}
	ctx, cancel := cli.Half(ctx)
	defer cancel()
	client, tell, err := cli.OpenGardener(ctx, s, cfg.Gardener)
	if err == nil {
		defer tell()
		var b engine.Binding
		b, err = client.Find(ctx, name)
		if err == nil {
			v := view.NewBinding(view.Place{Pool: pool, Binding: name}, &b, &rec, view.TermsOf(cfg))
			return &v, nil
		}
	}
	if _, foreign := errors.AsType[*engine.ForeignError](err); foreign {
		return nil, err
	}
	if engine.CodeOf(err) != engine.CodeUnknownBinding {
		s.Say("could not read the label of %s: %v", name, cli.GardenerError(err))
		return nil, nil
	}
	v := view.NewBinding(view.Place{Pool: pool, Binding: name}, nil, &rec, view.TermsOf(cfg))
	return &v, nil
}

// reasons returns the sentences that explain a reply, in the order in which they are shown.
func reasons(l ledgerReply) []reason {
	e := telling{reply: l.Reply, decision: l.Reply.Decision}
	if e.decision == nil {
		e.decision = &events.Decision{}
	}
	e.rule()
	e.account()
	e.considered()
	e.attempts()
	e.network()
	e.waited(l.StoredAt)
	e.changed()
	if err := l.Reply.Error; err != nil {
		e.say("error", "%s: %s", err.Code, err.Message)
	}
	e.times(l.StoredAt)
	return e.out
}
