package integration_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/hap-worker/hap-worker/cmd/daemon"
)

// TestPageShowsRanges looks at the parents of network rules, before and after a
// cluster got a block: a new worker's page, since what is shown may be some seconds old.
func TestPageShowsRanges(t *testing.T) {
	t.Parallel()
	n := newNetworked(t, "", twoRules, accounts("aws", 1))
	shows := func(w *inProcess, texts ...string) {
		t.Helper()
		eventually(n.ctx, t, func() error {
			_, body, err := fetch(w.url + "/")
			for _, text := range texts {
				if err == nil && !strings.Contains(body, text) {
					err = errors.New("the page lacks " + text)
				}
			}
			return err
		})
	}
	shows(n.work(daemon.Options{}), "10.27.0.0/16: 0% used by 0 blocks", "10.28.0.0/24: 0% used by 0 blocks")
	e := cluster("rt-mcp", "ga-1", []string{"mcp"}, nil)
	n.provision(e)
	n.given(e)
	shows(n.work(daemon.Options{}), "10.27.0.0/16: 0.0244% used by 1 block", "10.28.0.0/24: 0% used")
}
