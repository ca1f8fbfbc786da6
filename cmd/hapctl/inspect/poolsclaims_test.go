package inspect

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/hap-worker/hap-worker/cmd/hapctl/view"
	"github.com/hap-worker/hap-worker/engine/account"
)

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
