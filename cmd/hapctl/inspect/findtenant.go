package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/cmd/hapctl/letters"
	"github.com/hap-worker/hap-worker/cmd/hapctl/view"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/natural"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/streams"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

// tenantFinding lists the accounts and the requests of a tenant.
type tenantFinding struct {
	Tenant      string           `json:"tenant"`
	Since       time.Time        `json:"since"`
	Accounts    []view.Binding   `json:"accounts"` // by their labels
	Waiting     []waitingView    `json:"waiting"`
	Queued      []queuedView     `json:"queued"`
	Requests    []explained      `json:"requests"` // replies stored at Since or later, oldest first
	DeadLetters []letters.Letter `json:"deadLetters"`
	Searches    []searched       `json:"searches"`
}

func (v tenantFinding) empty() bool {
	return len(v.Accounts)+len(v.Waiting)+len(v.Queued)+len(v.Requests)+len(v.DeadLetters) == 0
}

func (v tenantFinding) Show(w io.Writer, wide bool) {
	lines := [][2]string{{"TENANT", v.Tenant}, {"SINCE", v.Since.Format(time.RFC3339)}}
	for i := range v.Accounts {
		lines = append(lines, [2]string{"ACCOUNT", accountText(&v.Accounts[i]) + "; pool " + v.Accounts[i].Pool})
	}
	for _, one := range v.Waiting {
		lines = append(lines, [2]string{"WAITS", fmt.Sprintf("runtime %s since %s: %s", one.RuntimeID, one.Since.Format(time.RFC3339), waitingReason(one.Reason, one.Pool))})
	}
	lines = append(lines, toldOfQueued(v.Queued)...)
	lines = append(lines, toldOfLetters(v.DeadLetters)...)
	cli.Pairs(w, append(lines, toldOfSearches(v.Searches, true)...))
	if len(v.Requests) == 0 {
		return
	}
	header := []string{"STORED", "REQUEST", "RUNTIME", "STATUS", "BINDING", "ERROR"}
	if wide {
		header = append(header, "POOL", "SEQUENCE", "WHY")
	}
	rows := make([][]string, len(v.Requests))
	for i, one := range v.Requests {
		rows[i] = one.row(wide)
	}
	fmt.Fprintln(w)
	cli.FittedUnless(w, wide, header, rows, "RUNTIME", "REQUEST", "BINDING", "ERROR")
}

func (d explained) row(wide bool) []string {
	r := d.Reply
	row := []string{d.StoredAt.UTC().Format(time.RFC3339), r.RequestID, r.RuntimeID, string(r.Status), "", ""}
	if r.Binding != nil {
		row[4] = r.Binding.Name
	}
	if r.Error != nil {
		row[5] = string(r.Error.Code)
	}
	if wide {
		pool, sequence := "", ""
		if r.Decision != nil {
			pool = r.Decision.Pool
		}
		if n := sequenceOf(r); n > 0 {
			sequence = strconv.FormatInt(n, 10)
		}
		row = append(row, pool, sequence, d.brief())
	}
	return cli.Dashed(row)
}

// brief returns the most informative reason, "" for none.
func (d explained) brief() string {
	for _, about := range []string{"error", "account", "changed", "waits"} {
		if i := slices.IndexFunc(d.Why, func(r reason) bool { return r.About == about }); i >= 0 {
			return d.Why[i].Text
		}
	}
	return ""
}

// findTenantIfAny is findTenant, but returns nil if the tenant has nothing.
func (f *finder) findTenantIfAny(ctx context.Context, id string) (cli.View, error) {
	v, err := f.readTenant(ctx, id)
	if err != nil || v.empty() {
		return nil, err
	}
	return v, nil
}

// findTenant finds a tenant. If the tenant has nothing, it returns an empty view and, except in the formats
// JSON and YAML, tells the user: like an empty list, that is no failure.
func (f *finder) findTenant(ctx context.Context, id string) (cli.View, error) {
	v, err := f.readTenant(ctx, id)
	if err != nil {
		return nil, err
	}
	if v.empty() && f.s.Format != cli.FormatJSON && f.s.Format != cli.FormatYAML {
		f.s.Say("nothing of tenant %s: no account, nothing that waits, and no request since %s", id, v.Since.Format(time.RFC3339))
	}
	return v, nil
}

func (f *finder) readTenant(ctx context.Context, id string) (tenantFinding, error) {
	since := time.Now().Add(-f.since).UTC().Truncate(time.Second)
	v := tenantFinding{Tenant: id, Since: since, Requests: []explained{}}
	var err error
	if v.Accounts, err = f.accountsOf(ctx, id); err != nil {
		return v, err
	}
	if v.Waiting, err = readWaiting(ctx, f.s, f.cfg, waitingFilter{tenant: id}); err != nil {
		return v, err
	}
	if v.Queued, err = f.queuedSince(ctx, since, id); err != nil {
		return v, err
	}
	found := []ledgerReply{}
	err = f.s.WithStreams(ctx, f.cfg, func(js jetstream.JetStream, subjects events.Subjects) error {
		extent, err := storage.NewLedger(js, subjects, cli.Source).OfTenant(ctx, id, since, f.most(streams.Everything), replies(&found))
		f.searched(events.StreamReplies, extent)
		return err
	})
	if err != nil {
		return v, fmt.Errorf("reading the replies to tenant %s from %s: %w", id, events.StreamReplies, err)
	}
	for _, l := range found {
		v.Requests = append(v.Requests, explained{ledgerReply: l, Why: reasons(l)})
	}
	if v.DeadLetters, err = f.letters(ctx, since, func(l letters.Letter) bool { return l.Tenant == id }); err != nil {
		return v, err
	}
	v.Searches = f.searches
	return v, nil
}

// accountsOf returns the accounts whose label names a tenant, with their records in Redis.
func (f *finder) accountsOf(ctx context.Context, tenant string) ([]view.Binding, error) {
	store, err := cli.OpenRedis(ctx, f.s, f.cfg)
	if err != nil {
		return nil, err
	}
	client, tell, err := cli.OpenGardener(ctx, f.s, f.cfg.Gardener)
	if err != nil {
		return nil, err
	}
	defer tell()
	var labelled []engine.Binding
	err = client.List(ctx, func(b engine.Binding) error { // all, since any can have the Secret of the tenant's
		if b.Tenant == tenant {
			labelled = append(labelled, b)
		}
		return nil
	})
	if err != nil {
		return nil, cli.GardenerError(err)
	}
	accounts := make([]view.Binding, len(labelled))
	for i := range labelled {
		b := &labelled[i]
		at := view.Place{Pool: b.Pool().Name(), Binding: b.Name}
		rec, err := store.Binding(ctx, at.Pool, b.Name)
		if err != nil && !errors.Is(err, account.ErrNotBuilt) {
			return nil, err
		}
		accounts[i] = view.NewBinding(at, b, view.RecordIf(rec, err == nil, account.Status{}), view.TermsOf(f.cfg))
	}
	slices.SortFunc(accounts, func(a, b view.Binding) int {
		return cmp.Or(natural.Compare(a.Pool, b.Pool), natural.Compare(a.Name, b.Name))
	})
	return accounts, nil
}
