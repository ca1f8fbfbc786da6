package campaign

import (
	"regexp"
	"testing"

	"github.com/hap-worker/hap-worker/worker/simulation"
	"github.com/hap-worker/hap-worker/worker/simulation/plans"
)

// names matches the parts in which two violations of the same kind differ.
var names = regexp.MustCompile(`"[^"]*"|[a-z]+-[0-9]+|[0-9]+|\{.*`)

// class is a violation without its names.
func class(violation string) string { return names.ReplaceAllString(violation, "…") }

// simpler are reductions of a plan's world. Each reports whether there was something to reduce.
var simpler = []func(*plans.Plan) bool{
	func(p *plans.Plan) bool { p.Workers--; return p.Workers > 0 },
	func(p *plans.Plan) bool { p.Bindings--; return p.Bindings > 0 },
	func(p *plans.Plan) bool { was := p.Networks; p.Networks = false; return was },
	func(p *plans.Plan) bool { was := p.Limit; p.Limit = 0; return was > 0 },
	func(p *plans.Plan) bool { was := p.Tenants; p.Tenants--; return was > 1 },
}

// Shorten looks for a shorter plan with a violation of the same class: fewer items, then fewer workers and
// bindings, no network, no limit and fewer tenants, then at most one step between items. It plays at most tries
// histories.
func Shorten(t *testing.T, r simulation.Result, mutant string, tries int) simulation.Result {
	t.Helper()
	breaks := func(p plans.Plan) bool {
		for range 3 { // another order of steps may show it
			if tries--; tries < 0 {
				return false
			}
			got := simulation.Play(t, p, mutant)
			if class(got.Violation) == class(r.Violation) {
				r = got
				return true
			}
			p.Seed += 1 << 40
		}
		return false
	}
	each := func(change func(p plans.Plan, from, to int) plans.Plan) {
		for size := len(r.Plan.Items) / 2; size > 0; size /= 2 {
			for at := 0; at < len(r.Plan.Items) && tries > 0; {
				before := len(r.Plan.Items)
				if !breaks(change(r.Plan, at, min(at+size, before))) || len(r.Plan.Items) == before {
					at += size
				}
			}
		}
	}
	each(plans.Plan.Without)
	for _, less := range simpler {
		for p := r.Plan; less(&p) && breaks(p); p = r.Plan {
		}
	}
	each(plans.Plan.AtOnce)
	return r
}
