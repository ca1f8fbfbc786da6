package counters_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/hap-worker/hap-worker/counters/counterstest"
	"github.com/hap-worker/hap-worker/engine/account"
)

// TestRuntimesOn: of more runtimes than one call looks at, those of one binding are returned as Runtimes
// returns them, and none that has its name in another field.
func TestRuntimesOn(t *testing.T) {
	t.Parallel()
	for name, client := range servers(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := counterstest.NewMachine(client, "")
			for _, err := range m.RuntimesOn(t.Context(), "p", "aws-1") {
				if !errors.Is(err, account.ErrNotBuilt) {
					t.Errorf("a pool that is not built: %v", err)
				}
			}
			runtimes := map[string]account.Runtime{}
			s := account.Snapshot{Bindings: map[string]account.Record{}, Runtimes: maps.All(runtimes)}
			for n := range 3000 {
				runtimes[fmt.Sprintf("rt-%d", n)] = account.Runtime{
					State: account.RuntimeAssigned, Binding: fmt.Sprintf("aws-%d", n%300), Sequence: int64(n + 1), Request: "aws-1", Confirmed: true, Tenant: "ga",
				}
			}
			runtimes["gone"] = account.Runtime{State: account.RuntimeGone, Binding: "aws-1", Sequence: 5000, Tenant: "ga"}
			build(t, m, "p", "e1", s)
			for _, binding := range []string{"aws-1", "aws-299", "aws", "aws-300", ""} {
				var got, want []string
				for rt, err := range m.RuntimesOn(t.Context(), "p", binding) {
					if err != nil {
						t.Fatal(err)
					}
					got = append(got, fmt.Sprint(rt))
				}
				for rt, err := range m.Runtimes(t.Context(), "p") {
					if err != nil {
						t.Fatal(err)
					}
					if rt.Binding == binding {
						want = append(want, fmt.Sprint(rt))
					}
				}
				slices.Sort(got)
				slices.Sort(want)
				if !slices.Equal(slices.Compact(got), slices.Compact(want)) || len(want) == 0 != (binding == "" || binding == "aws" || binding == "aws-300") {
					t.Errorf("%s: %q, want %q", binding, got, want)
				}
			}
			if err := client.HSet(t.Context(), "hap:{p}:r", "junk", "assigned|aws-1|").Err(); err != nil {
				t.Fatal(err)
			}
			var fault error
			for _, err := range m.RuntimesOn(t.Context(), "p", "aws-1") {
				fault = errors.Join(fault, err)
			}
			if fault == nil {
				t.Error("a record that cannot be read is left out")
			}
		})
	}
}
