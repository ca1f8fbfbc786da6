package whatif

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/cmd/connect"
	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/capacity"
	"github.com/hap-worker/hap-worker/engine/document"
	"github.com/hap-worker/hap-worker/engine/rule"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/config"
)

// historyVersion is the version of the format of a saved history.
const historyVersion = 1

// history lists the past requests in the ledger. A saved one is only for 'hapctl plan --history'.
type history struct {
	Version   int               `json:"version"`
	Since     time.Time         `json:"since"` // from then until Until, the history is complete
	Until     time.Time         `json:"until"`
	Clusters  []historyCluster  `json:"clusters"`
	Refused   []historyRefused  `json:"refused"`
	Cleanings []historyCleaning `json:"cleanings"`
}

// historyRequest is the tenant of a request, with the fields that lead it to a pool.
type historyRequest struct {
	GlobalAccountID   string `json:"globalAccountID"`
	Plan              string `json:"plan,omitzero"`
	Provider          string `json:"provider,omitzero"`
	PlatformRegion    string `json:"platformRegion,omitzero"`
	HyperscalerRegion string `json:"hyperscalerRegion,omitzero"`
	Pool              string `json:"pool"`
}

// historyCluster is a cluster from its assignment to its deprovision.
type historyCluster struct {
	RuntimeID string `json:"runtimeID"`
	historyRequest
	Begin time.Time `json:"begin"`
	End   time.Time `json:"end,omitzero"` // zero while it runs
}

// historyRefused is a request that found no account until its deadline.
type historyRefused struct {
	historyRequest
	At time.Time `json:"at"`
}

// historyCleaning is the time from an account's last cluster to the account's return.
type historyCleaning struct {
	Pool    string    `json:"pool"`
	Binding string    `json:"binding"`
	Begin   time.Time `json:"begin"`
	End     time.Time `json:"end"`
}

// readHistory reads the ledger. Clusters that ended before the window may be missing in the ledger.
func readHistory(ctx context.Context, s *cli.Shell, cfg *config.Config, window time.Duration) (*history, error) {
	h := &history{Version: historyVersion, Until: time.Now().UTC().Truncate(time.Second)}
	h.Since = h.Until.Add(-window)
	g := historian{of: h, clusters: map[string]*historyCluster{}, ends: map[string]time.Time{}, emptied: map[string]historyCleaning{}}
	ctx = s.Watched(ctx)
	err := s.WithStreams(ctx, cfg, func(js jetstream.JetStream, subjects events.Subjects) error {
		return storage.NewLedger(js, subjects, cli.Source).Each(ctx, g.see)
	})
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", events.StreamReplies, err)
	}
	g.finish()
	return h, nil
}

// historian makes a history from the replies of the ledger.
type historian struct {
	of       *history
	clusters map[string]*historyCluster // by runtime
	ends     map[string]time.Time       // by runtime: when it was first released
	emptied  map[string]historyCleaning // by binding: accounts without clusters since Begin
	oldest   time.Time
}

// see adds a reply. Replies must come in the order of the stream.
func (g *historian) see(stored events.Stored) error {
	r := stored.Reply
	if stored.Time.After(g.of.Until) {
		return nil // the history ends before it
	}
	if g.oldest.IsZero() || stored.Time.Before(g.oldest) {
		g.oldest = stored.Time
	}
	switch {
	case r.Status == events.StatusAssigned && r.Decision != nil:
		if c := g.clusters[r.RuntimeID]; c == nil || stored.Time.Before(c.Begin) {
			g.clusters[r.RuntimeID] = &historyCluster{RuntimeID: r.RuntimeID, historyRequest: requestIn(r), Begin: stored.Time}
		}
	case r.Status == events.StatusReleased:
		if _, known := g.ends[r.RuntimeID]; !known {
			g.ends[r.RuntimeID] = stored.Time
		}
		if r.Binding != nil && (r.MarkedDirty || r.Draining) && r.Decision != nil {
			g.emptied[r.Binding.Name] = historyCleaning{Pool: r.Decision.Pool, Binding: r.Binding.Name, Begin: stored.Time}
		}
	case r.Status == events.StatusReturned && r.Binding != nil:
		if c, known := g.emptied[r.Binding.Name]; known {
			c.End = stored.Time
			g.of.Cleanings = append(g.of.Cleanings, c)
			delete(g.emptied, r.Binding.Name)
		}
	case r.Status == events.StatusRejected && r.Error != nil && r.Error.Code == engine.CodePoolExhausted && r.Decision != nil && r.Decision.Pool != "":
		g.of.Refused = append(g.of.Refused, historyRefused{historyRequest: requestIn(r), At: stored.Time})
	}
	return nil
}

func requestIn(r events.Reply) historyRequest {
	return historyRequest{
		GlobalAccountID: r.GlobalAccountID, Plan: r.Plan, Provider: r.Provider,
		PlatformRegion: r.Decision.PlatformRegion, HyperscalerRegion: r.Decision.HyperscalerRegion, Pool: r.Decision.Pool,
	}
}

// finish joins the beginnings and ends of clusters. If the ledger is younger than the window, the history is
// complete from its first reply on; an empty ledger has the history of no time.
func (g *historian) finish() {
	if g.oldest.IsZero() {
		g.of.Since = g.of.Until
	} else if g.oldest.After(g.of.Since) {
		g.of.Since = g.oldest
	}
	for _, id := range slices.Sorted(maps.Keys(g.clusters)) {
		c := *g.clusters[id]
		if end, ended := g.ends[id]; ended && !end.Before(c.Begin) {
			c.End = end
		}
		g.of.Clusters = append(g.of.Clusters, c)
	}
}

// loadHistory reads a file of 'hapctl plan --save-history'.
func loadHistory(path string) (*history, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the history: %w", err)
	}
	text, err := document.Text(content)
	if err != nil {
		return nil, fmt.Errorf("read the history: %w", connect.InFile(err, path))
	}
	h := &history{}
	if err := json.Unmarshal(text, h); err != nil {
		return nil, fmt.Errorf("%s is no file of hapctl plan --save-history: %w", path, err)
	}
	switch {
	case h.Version != historyVersion:
		return nil, fmt.Errorf("%s has format version %d, this hapctl reads version %d: save the history again with 'hapctl plan --save-history' of this hapctl", path, h.Version, historyVersion)
	case h.Until.IsZero(), h.Until.Before(h.Since):
		return nil, fmt.Errorf("%s: since %s is not before until %s", path, h.Since, h.Until)
	}
	return h, nil
}

// short returns how the forecast may mislead because the history is shorter than window, "" if it is not.
func (h *history) short(window time.Duration) string {
	switch length := h.Until.Sub(h.Since); {
	case length == 0:
		return "the past has no replies: the forecast has no requests, and says nothing of those to come"
	case length < window:
		return fmt.Sprintf("the past is only %s, back to %s: the forecast takes %s and %s of so short a time for those of every day",
			cli.SpanText(length), h.Since.Format(time.RFC3339), cli.Count(len(h.Clusters), "cluster"), cli.Count(len(h.Refused), "refused request"))
	}
	return ""
}

// pasts divides the history by pool. If rules is nil, the pools are the recorded ones. Otherwise each
// cluster and refused request belongs to the pool to which the rules lead it, or to none; cleanings stay in
// their pool.
func (h *history) pasts(rules *rule.Ruleset) map[string]*capacity.Past {
	pasts := map[string]*capacity.Past{}
	of := func(pool string) *capacity.Past {
		if pasts[pool] == nil {
			pasts[pool] = &capacity.Past{Since: h.Since, Until: h.Until}
		}
		return pasts[pool]
	}
	for _, c := range h.Clusters {
		if pool := c.pool(rules); pool != "" {
			p := of(pool)
			p.Stays = append(p.Stays, capacity.Stay{Tenant: c.GlobalAccountID, Begin: c.Begin, End: c.End})
		}
	}
	for _, r := range h.Refused {
		if pool := r.pool(rules); pool != "" {
			p := of(pool)
			p.Refused = append(p.Refused, capacity.Refused{Tenant: r.GlobalAccountID, At: r.At})
		}
	}
	for _, c := range h.Cleanings {
		p := of(c.Pool)
		p.Cleanings = append(p.Cleanings, c.End.Sub(c.Begin))
	}
	return pasts
}

// pool returns the pool to which the rules lead the request, "" for none; without rules, the recorded pool.
func (r historyRequest) pool(rules *rule.Ruleset) string {
	if rules == nil {
		return r.Pool
	}
	m, err := rules.Match(rule.Request{
		Plan: r.Plan, Provider: r.Provider, PlatformRegion: r.PlatformRegion, HyperscalerRegion: r.HyperscalerRegion,
	})
	if err != nil {
		return ""
	}
	return m.Pool.Name()
}

// begins returns the time of assignment of each runtime.
func (h *history) begins() map[string]time.Time {
	begins := make(map[string]time.Time, len(h.Clusters))
	for _, c := range h.Clusters {
		begins[c.RuntimeID] = c.Begin
	}
	return begins
}
