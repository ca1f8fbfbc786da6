package daemon

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/hap-worker/hap-worker/counters"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/streams"
	"github.com/hap-worker/hap-worker/gardener"
	"github.com/hap-worker/hap-worker/ledger/dead"
	"github.com/hap-worker/hap-worker/ledger/queued"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/observe"
	"github.com/hap-worker/hap-worker/worker/page"
	"github.com/hap-worker/hap-worker/worker/page/access"
	"github.com/hap-worker/hap-worker/worker/telemetry"
)

// The adapters implement the interfaces of package page.
var (
	_ page.Accounts = (*gardener.Client)(nil)
	_ page.Records  = (*counters.Store)(nil)
	_ page.Room     = (*storage.WaitingRoom)(nil)
	_ page.Ledger   = (*storage.Ledger)(nil)
)

// newPage returns the operations page, nil if it is switched off. Its streams end with ctx.
func (d *daemon) newPage(ctx context.Context) *page.Page {
	c := d.cfg.Telemetry.Page
	if !c.Enabled {
		return nil
	}
	oidc := access.OIDC{
		Issuer: c.OIDC.Issuer, ClientID: c.OIDC.ClientID, ClientSecretFile: c.OIDC.ClientSecretFile, RedirectURL: c.OIDC.RedirectURL,
		Groups: c.OIDC.Groups, GroupsClaim: c.OIDC.GroupsClaim, Scopes: c.OIDC.Scopes, CA: c.OIDC.CA,
	}
	return page.New(ctx, page.Options{
		Access: access.Rules{
			Listen: cmp.Or(c.Listen, d.cfg.Telemetry.Listen), Username: c.Username, PasswordFile: c.PasswordFile, TokenFile: c.TokenFile, OIDC: oidc,
		},
		Settings: func() page.Settings { return d.rules.Get() },
		Recent:   d.recent, Version: d.opts.Version, Instance: instance(), Log: d.log,
		Alone: c.Listen != "",
	})
}

// pages returns the additional handlers for the listener of probes and metrics: the page, unless it is switched
// off or has a separate address.
func (d *daemon) pages() map[string]http.Handler {
	if d.page == nil || d.ownPage() {
		return nil
	}
	return map[string]http.Handler{"/": d.page}
}

// ownPage reports whether the page has a separate address.
func (d *daemon) ownPage() bool { return d.page != nil && d.cfg.Telemetry.Page.Listen != "" }

// listenPage serves the page at its separate address until ctx ends.
func (d *daemon) listenPage(ctx context.Context) error {
	c := d.cfg.Telemetry.Page
	o := telemetry.ServerOptions{Addr: c.Listen, Instead: d.page, Log: d.log}
	if c.TLS.Cert != "" {
		secure, err := access.TLSConfig(c.TLS.Cert, c.TLS.Key, func(text string) { d.log.Warn(text) })
		if err != nil {
			return err
		}
		o.TLS = secure
	}
	return telemetry.Serve(ctx, o, func(addr string) { d.log.Info("listening for the operations page", "addr", addr, "tls", o.TLS != nil) })
}

// showLandscape connects the page to the parts and has it watch them until ctx ends. open calls it last.
func (d *daemon) showLandscape(ctx context.Context) {
	if d.page == nil {
		return
	}
	p := &d.parts
	s := page.Sources{
		Accounts: p.gardener, Records: p.counters, Room: p.room, Ledger: p.ledger, Facts: p.ledger,
		Subjects: p.subjects, Keep: d.cfg.NATS.Retention,
		Exhaustions: d.tel.Metrics.Exhaustions, Checks: d.pageChecks(), Watched: d.pageWatched(), Circuits: d.circuits,
		Queued: func(ctx context.Context, most uint64) ([]queued.Event, streams.Extent, error) {
			return queued.Find(ctx, p.ledger, time.Time{}, map[string]uint64{">": most}, func(events.Event) bool { return true }, p.consumer.Info)
		},
	}
	if p.intake == nil { // only a shadow has an intake: it has no right to read dead letters
		s.Letters = dead.NewLettersOn(p.streams, p.subjects).Newest
	}
	if p.ranges != nil {
		s.Networks = &rangesShown{read: p.ranges.State, now: time.Now}
	}
	d.page.Connect(s)
	d.running.Go(func() { d.page.Watch(ctx) })
}

// circuits returns the circuits of the worker, nil until it exists.
func (d *daemon) circuits() []observe.Circuit {
	w := d.parts.worker.Load()
	if w == nil {
		return nil
	}
	return w.Load().Circuits
}

// rangesEvery is the maximum age of the ranges on the page: reading them means reading the blocks of
// all clusters.
const rangesEvery = 15 * time.Second

// rangesShown caches the network ranges for the page.
type rangesShown struct {
	read func(context.Context) (network.State, error)
	now  func() time.Time

	mu    sync.Mutex
	taken time.Time
	last  []page.Parent
}

// Parents returns the ranges with their used blocks, as of rangesEvery ago at most; none if Redis has no ranges
// built.
func (r *rangesShown) Parents(ctx context.Context) ([]page.Parent, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.taken.IsZero() && r.now().Sub(r.taken) < rangesEvery {
		return r.last, nil
	}
	state, err := r.read(ctx)
	if errors.Is(err, account.ErrNotBuilt) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r.last, r.taken = parentsOf(state), r.now()
	return r.last, nil
}

// parentsOf lists, for each range of the parents, the blocks of clusters and of other allocators in it. For
// a block that contains the whole range, it lists the range.
func parentsOf(state network.State) []page.Parent {
	blocks := slices.Clone(state.Foreign)
	for _, record := range state.Records {
		for _, block := range record.Blocks {
			blocks = append(blocks, block.CIDR)
		}
	}
	var parents []page.Parent
	for _, parent := range state.Parents {
		for _, cidr := range parent.CIDRs {
			p := page.Parent{Name: parent.ID, CIDR: cidr}
			for _, block := range blocks {
				switch {
				case block.Bits() >= cidr.Bits() && cidr.Contains(block.Addr()):
					p.Used = append(p.Used, block)
				case block.Contains(cidr.Addr()):
					p.Used = append(p.Used, cidr)
				}
			}
			parents = append(parents, p)
		}
	}
	return parents
}
