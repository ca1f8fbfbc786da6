package operator

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/hap-worker/hap-worker/engine/account"
)

func TestEmptyIn(t *testing.T) {
	t.Parallel()
	c := claims{window: 24 * time.Hour, of: map[string]int{"aws": 12, "aws+shared": 3}}
	for _, r := range []struct {
		pool poolView
		want string
	}{
		{poolView{Pool: "aws", Free: figure{n: 6}}, "12h"},
		{poolView{Pool: "aws", Free: figure{n: 36}}, "3d"},
		{poolView{Pool: "aws"}, "now"},
		{poolView{Pool: "aws", Free: figure{unknown: true}}, ""},
		{poolView{Pool: "azure", Free: figure{n: 6}}, ""},
		{poolView{Pool: "aws+shared", Shared: true, Free: figure{n: 6}}, ""},
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
	p := poolView{
		Pool: "gcp_cf-sa30+eu", Built: true, Limit: 180, Free: figure{n: 1234}, Claimed: figure{n: 1234}, Clusters: figure{n: 234567},
		Waiting: figure{n: 12345}, Dirty: figure{n: 1234}, Tenants: figure{n: 12345}, EmptyIn: &seconds, Standings: map[account.State]int{},
	}
	var text bytes.Buffer
	poolList{Pools: []poolView{p}}.show(&text, false)
	for line := range strings.Lines(text.String()) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, " \n")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if !strings.Contains(text.String(), "234567/444240") || !strings.Contains(text.String(), "90d") {
		t.Error(text.String())
	}
}
