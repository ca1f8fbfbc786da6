package daemon

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/worker/config"
	"github.com/hap-worker/hap-worker/worker/observe"
	"github.com/hap-worker/hap-worker/worker/page"
	"github.com/hap-worker/hap-worker/worker/ranges"
	"github.com/hap-worker/hap-worker/worker/telemetry"
)

// newTelemetry returns the telemetry of a daemon, until the end of the test.
func newTelemetry(t *testing.T) *telemetry.Telemetry {
	t.Helper()
	tel, err := telemetry.New(t.Context(), telemetry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tel.Shutdown(t.Context()) })
	return tel
}

// TestAuditSetsTheGauge feeds a daemon with audits. A failed audit leaves the gauge at the
// value of the last successful one.
func TestAuditSetsTheGauge(t *testing.T) {
	t.Parallel()
	tel := newTelemetry(t)
	d := &daemon{tel: tel, log: slog.New(slog.DiscardHandler), recent: page.NewRecent()}
	o := d.observer()
	count, idle := account.Drift{Kind: account.CountWrong, Binding: "a"}, account.Drift{Kind: account.ClaimedIdle, Binding: "b"}
	for _, c := range []struct {
		what        string
		audit       observe.Drift
		count, idle string // as scraped, "" if the gauge is absent
	}{
		{"the first one failed", observe.Drift{Err: errors.New("down")}, "", ""},
		{"the next one found a bucket that is not built", observe.Drift{NotBuilt: []string{account.BucketName(0)}}, "", ""},
		{"two drifts", observe.Drift{Found: []account.Drift{count, idle}}, "1", "1"},
		{"the next one failed", observe.Drift{Err: errors.New("down")}, "1", "1"},
		{"one is repaired", observe.Drift{Found: []account.Drift{count, idle}, Changed: []account.Drift{count}}, "0", "1"},
		{"a part is not built", observe.Drift{Found: []account.Drift{count}, NotBuilt: []string{"gcp"}}, "1", "1"},
		{"nothing is left", observe.Drift{}, "0", "0"},
		{"a repair failed", observe.Drift{Found: []account.Drift{count, idle}, Changed: []account.Drift{count}, RepairErr: errors.New("down")}, "0", "1"},
	} {
		o.Drift(t.Context(), c.audit)
		if got := driftOf(tel, account.CountWrong); got != c.count {
			t.Errorf("%s: count-wrong is %q, want %q", c.what, got, c.count)
		}
		if got := driftOf(tel, account.ClaimedIdle); got != c.idle {
			t.Errorf("%s: claimed-idle is %q, want %q", c.what, got, c.idle)
		}
	}
}

// TestRefusedNetwork is a network configuration that is replaced by an invalid one, and changed back.
func TestRefusedNetwork(t *testing.T) {
	t.Parallel()
	tel := newTelemetry(t)
	d := &daemon{tel: tel, log: slog.New(slog.DiscardHandler)}
	d.parts.extend = &ranges.Reconciler{Networks: d.networks.Config}
	for _, c := range []struct{ content, refused, applied string }{
		{"parentCIDRs: {a: [10.0.0.0/8]}", "0", "1"},
		{"parentCIDRs: {a: [10.0.0.0/8]}", "0", "1"},
		{"parentCIDRs: {a: [ten]}", "1", "1"},
		{"parentCIDRs: {a: [10.0.0.0/8]}", "0", "2"},
	} {
		if err := d.takeNetwork(t.Context(), []byte(c.content)); err != nil {
			d.networkRefused(t.Context(), "test", err)
		}
		refused, applied := scraped(tel, `hap_config_refused{source="network"}`), scraped(tel, "hap_config_reloads_total")
		if refused != c.refused || applied != c.applied {
			t.Errorf("after %s: refused %q, applied %q; want %q and %q", c.content, refused, applied, c.refused, c.applied)
		}
	}
}

// driftOf scrapes the metrics and returns the value of hap_drift for kind, "" if there is none.
func driftOf(tel *telemetry.Telemetry, kind account.DriftKind) string {
	return scraped(tel, `hap_drift{kind="`+string(kind)+`"}`)
}

// scraped scrapes the metrics and returns the value of a series, "" if there is none.
func scraped(tel *telemetry.Telemetry, series string) string {
	recorder := httptest.NewRecorder()
	tel.Handler().ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	for line := range strings.Lines(recorder.Body.String()) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// TestReloadThatAppliesNothing is a changed file of which one key needs a restart. Without it the rest may be
// valid, and is applied, or not; then the change counts as rejected.
func TestReloadThatAppliesNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rest     error
		failures string
		log      string
	}{
		"the rest is applied":   {nil, "0", "applied a part"},
		"the rest is not valid": {errors.New("hap.waiting.timeout is too long"), "1", "rejected the changed configuration"},
	} {
		tel := newTelemetry(t)
		var log strings.Builder
		d := &daemon{tel: tel, log: slog.New(slog.NewTextHandler(&log, nil))}
		d.reloadFailed(t.Context(), &config.NeedsRestart{Keys: []string{"nats.retention"}, Rest: c.rest})
		if got := cmp.Or(scraped(tel, "hap_config_reload_failures_total"), "0"); got != c.failures || !strings.Contains(log.String(), c.log) {
			t.Errorf("%s: %s failures, log:\n%s", name, got, log.String())
		}
	}
}
