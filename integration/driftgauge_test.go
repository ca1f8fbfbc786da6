package integration_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/cmd/daemon"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/audit"
	"github.com/hap-worker/hap-worker/worker/telemetry"
)

// gauge has what hap_drift says, by kind.
type gauge struct {
	l     *landscape
	tel   *telemetry.Telemetry
	audit *audit.Audit
	mends atomic.Bool // whether the audits repair
}

// newGauge audits the landscape every few milliseconds, until the test ends.
func newGauge(l *landscape) *gauge {
	l.t.Helper()
	tel, err := telemetry.New(l.ctx, telemetry.Options{})
	if err != nil {
		l.t.Fatal(err)
	}
	from := sources(l.t, l.stack, l.js, l.subjects)
	g := &gauge{l: l, tel: tel, audit: &audit.Audit{
		Records: from.Counters, Repairer: from.Counters, Ledger: from.Ledger, Inventory: from.Gardener, Reader: from.Gardener,
		Waiting: storage.NewWaitingRoom(l.js, l.subjects).Addresses, Pause: 20 * time.Millisecond,
	}}
	auditor := audit.Auditor{
		Audit:    g.audit,
		Settings: func() (time.Duration, bool) { return 5 * time.Millisecond, g.mends.Load() },
		Observer: tel.Metrics.Observer(),
	}
	ctx, stop := context.WithCancel(l.ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		auditor.Run(ctx)
	}()
	l.t.Cleanup(func() {
		stop()
		<-ended
		if err := tel.Shutdown(context.WithoutCancel(ctx)); err != nil {
			l.t.Error(err)
		}
	})
	return g
}

// shows waits until the gauge has exactly these drifts: 1 of each kind, every other one at 0.
func (g *gauge) shows(kinds ...account.DriftKind) {
	g.l.t.Helper()
	want := map[account.DriftKind]int{}
	for _, kind := range kinds {
		want[kind]++
	}
	eventually(g.l.ctx, g.l.t, func() error {
		scraped := httptest.NewRecorder()
		g.tel.Handler().ServeHTTP(scraped, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
		for _, kind := range account.DriftKinds() {
			line := fmt.Sprintf("\nhap_drift{kind=%q} %d\n", string(kind), want[kind])
			if !strings.Contains(scraped.Body.String(), line) {
				return fmt.Errorf("the gauge lacks %s", line)
			}
		}
		return nil
	})
}

// TestDriftGauge makes a drift of each remedy and sees the gauge go up, stay
// where an operator has to look, and go back to 0 when it is mended.
func TestDriftGauge(t *testing.T) {
	t.Parallel()
	l := newLandscape(t, oneAccountRules, accounts("aws", 4))
	l.work(daemon.Options{})
	on := map[string]string{}
	var used []string
	for _, tenant := range []string{"ga-1", "ga-2", "ga-3"} {
		e := ask("rt-of-"+tenant, tenant)
		l.provision(e)
		on[tenant] = l.assigned(e)
		used = append(used, on[tenant])
	}
	l.awaitSettled()
	g, hand := newGauge(l), l.byHand()
	g.shows()

	// Mended: up while no audit repairs, gone with the audit that does.
	l.miscount(hand, on["ga-1"], 7)
	g.shows(account.CountWrong)
	g.mends.Store(true)
	g.shows()

	// Doubted: what keeps new clusters off the account does not make the drift less.
	l.label(on["ga-2"], map[string]any{"tenantName": "ga-else"})
	g.shows(account.TenantContradicts)
	l.record("aws", on["ga-2"], func(r account.Record) bool { return !r.Confirmed })
	g.shows(account.TenantContradicts)

	// Reported: an operator has to look.
	l.invent(hand, "ghost", on["ga-3"], "9||1|own|ga-3")
	g.shows(account.TenantContradicts, account.RuntimeUnknown)

	// Drained only by who asks for it.
	idle := l.claimIdle(used, 4)
	g.shows(account.TenantContradicts, account.RuntimeUnknown, account.ClaimedIdle)
	found, err := g.audit.Verify(l.ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.audit.RepairAll(l.ctx, found.Drifts, true); err != nil {
		t.Fatal(err)
	}
	g.shows(account.TenantContradicts, account.RuntimeUnknown)
	if b := l.binding(idle); !b.Dirty && b.Tenant != "ga-idle" {
		t.Errorf("the drained account is %+v", b)
	}

	l.label(on["ga-2"], map[string]any{"tenantName": "ga-2"})
	g.shows(account.RuntimeUnknown)
	hand.HDel(l.ctx, "hap:{aws}:r", "ghost")
	hand.HDel(l.ctx, directoryOf("ghost"), "ghost")
	g.shows()
}
