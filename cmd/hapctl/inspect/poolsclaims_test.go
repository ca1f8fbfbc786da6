package inspect

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/cmd/hapctl/view"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/ledger/ledgertest"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/config"
)

// TestClaimsOfAnotherLandscape: a ledger of another landscape ends the command, while one that cannot be read does not.
func TestClaimsOfAnotherLandscape(t *testing.T) {
	t.Parallel()
	server := ledgertest.Server(t)
	if _, err := storage.Setup(t.Context(), server.JetStream(), storage.Options{Manage: true}); err != nil {
		t.Fatal(err)
	}
	ledger := storage.NewLedger(server.JetStream(), ledgertest.Subjects(t), cli.Source)
	if err := ledger.SetLandscape(t.Context(), engine.Landscape{Namespace: "garden-old", Resource: "secrets"}); err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]int{server.URL(): cli.ExitInvalid, "nats://127.0.0.1:1": cli.ExitDone} {
		cfg := config.Default()
		cfg.NATS.URL, cfg.Gardener.Namespace = config.URLs{url}, "garden-kyma"
		var said strings.Builder
		s := cli.New(strings.NewReader(""), io.Discard, &said)
		cmd := &cobra.Command{RunE: func(cmd *cobra.Command, _ []string) error { return new(claims).read(cmd.Context(), s, cfg) }}
		if code := s.Run(t.Context(), cmd, nil); code != want {
			t.Errorf("%s: exit code %d, want %d:\n%s", url, code, want, &said)
		}
	}
}

func TestEmptyIn(t *testing.T) {
	t.Parallel()
	c := claims{window: 24 * time.Hour, of: map[string]int{"aws": 12, "aws+shared": 3}}
	for _, r := range []struct {
		pool PoolView
		want string
	}{
		{PoolView{Pool: "aws", Free: view.Figure{N: 6}}, "12h"},
		{PoolView{Pool: "aws", Free: view.Figure{N: 36}}, "3d"},
		{PoolView{Pool: "aws"}, "now"},
		{PoolView{Pool: "aws", Free: view.Figure{Unknown: true}}, ""},
		{PoolView{Pool: "azure", Free: view.Figure{N: 6}}, ""},
		{PoolView{Pool: "aws+shared", Shared: true, Free: view.Figure{N: 6}}, ""},
	} {
		r.pool.EmptyIn = c.emptyIn(&r.pool)
		if got := r.pool.emptyIn(); got != r.want {
			t.Errorf("%s with %s free is empty in %q, want %q", r.pool.Pool, r.pool.Free, got, r.want)
		}
	}
}

// TestPoolsFitATerminal: the table of pools has at most 80 columns, also with large numbers.
func TestPoolsFitATerminal(t *testing.T) {
	t.Parallel()
	seconds := int64(90 * 24 * 3600)
	p := PoolView{
		Pool: "gcp_cf-sa30+eu", Built: true, Limit: 180, Free: view.Figure{N: 1234}, Claimed: view.Figure{N: 1234}, Clusters: view.Figure{N: 234567},
		Waiting: view.Figure{N: 12345}, Dirty: view.Figure{N: 1234}, Tenants: view.Figure{N: 12345}, EmptyIn: &seconds, Standings: map[account.State]int{},
	}
	var text bytes.Buffer
	poolList{Pools: []PoolView{p}}.Show(&text, false)
	for line := range strings.Lines(text.String()) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, " \n")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if !strings.Contains(text.String(), "234567/444240") || !strings.Contains(text.String(), "90d") {
		t.Error(text.String())
	}
}
