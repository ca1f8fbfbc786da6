package account_test

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/hap-worker/hap-worker/engine/account"
)

// TestDrift compares Redis with ledger, labels and Shoots. The lines above "redis" are gathered, as in
// TestGathering; the lines below it are the records in Redis:
//
//	binding NAME STATE [tenant=T] [g=N] [confirmed] [count=N]
//	runtime ID STATE [on=BINDING] [seq=N] [tenant=T] [origin=O] [place=P | gone]
//	seq N
//
// all in pool=p, and a runtime in the directory under its pool unless it says otherwise.
func TestDrift(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata/drift", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			sources, redis, _ := strings.Cut(d.Input, "\nredis")
			var out []string
			for _, d := range redisHas(t, gather(t, sources), redis).Compare() {
				line := strings.TrimSpace(fmt.Sprintf("%s %s", d.Kind, strings.Trim(d.Binding+"/"+d.Runtime, "/"))) + ": " + d.Message + " -> " + string(d.Remedy())
				if d.Lacking != "" {
					line += ", lacking on " + d.Lacking
				}
				out = append(out, line)
			}
			if len(out) == 0 {
				return "none"
			}
			return strings.Join(out, "\n")
		})
	})
}

func redisHas(t *testing.T, g *account.Gathering, text string) *account.Found {
	t.Helper()
	found, sequences := g.Found(), map[string]int64{"p": 100}
	for row := range strings.SplitSeq(text, "\n") {
		f := words(strings.Fields(row))
		if len(f) == 0 {
			continue
		}
		pool := f.text("pool", "p")
		sequences[pool] = cmp.Or(sequences[pool], 100)
		switch f[0] {
		case "seq":
			sequences[pool] = f.number(t, "n")
		case "binding":
			found.AddRecord(pool, f[1], account.Record{
				State: account.State(f[2]), Tenant: f.text("tenant", ""), Generation: f.number(t, "g"),
				Confirmed: f.has("confirmed"), Count: int(f.number(t, "count")),
			})
		case "runtime":
			found.AddRuntime(pool, f[1], account.Runtime{
				State: account.RuntimeState(f[2]), Binding: f.text("on", ""), Sequence: f.number(t, "seq"),
				Tenant: f.text("tenant", ""), Origin: account.Origin(f.text("origin", "own")),
			})
			if f.has("gone") {
				found.AddPlace(f[1], account.Place{Gone: true, Sequence: 1})
			} else if place := f.text("place", pool); place != "" {
				found.AddPlace(f[1], account.Place{Pool: place})
			}
		}
	}
	for pool, sequence := range sequences {
		found.Built(pool, sequence)
	}
	return found
}
