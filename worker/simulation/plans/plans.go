// Package plans draws plans of histories from a seed: requests and faults.
package plans

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// Kind is the kind of an item: a request or the like, a fault of the world, or a fault of a call.
type Kind string

// The requests, and what happens to clusters.
const (
	Provision   Kind = "provision"
	Again       Kind = "the same request again"
	Another     Kind = "another request for the same runtime"
	Deprovision Kind = "deprovision"
	Release     Kind = "release"
	Resolve     Kind = "resolve"
	Cluster     Kind = "a cluster appears"
	ClusterGone Kind = "a cluster is gone at last"
)

// Requests are the kinds that are no faults.
var Requests = []Kind{Provision, Again, Another, Deprovision, Release, Resolve, Cluster, ClusterGone}

// Item is one line of a plan.
type Item struct {
	Kind  Kind
	After int // at most After+1 steps of the scheduler come before it
	N, M  int // choose among the candidates at that time, and the variant
}

func (i Item) String() string { return fmt.Sprintf("%s (%d, %d) after %d", i.Kind, i.N, i.M, i.After) }

// Plan is the plan of a history.
type Plan struct {
	Seed     uint64
	Workers  int
	Bindings int
	Tenants  int // 1 to 3
	Limit    int // clusters for each account of the tenants with several; 0: none has several
	Hurry    int // on average in one of Hurry steps, time passes although there are calls to choose
	Networks bool
	Items    []Item
}

// Draw draws the plan of a seed. A plan uses only some of six or more kinds, so that a failure that another
// fault would hide is found, too.
func Draw(seed uint64, kinds []Kind) Plan {
	r := rand.New(rand.NewPCG(seed, 0))
	p := Plan{
		Seed: seed, Workers: 1 + r.IntN(3), Bindings: 2 + r.IntN(6), Tenants: 3, Limit: r.IntN(4), Hurry: []int{8, 30, 150}[r.IntN(3)], Networks: r.IntN(3) == 0,
	}
	var some []Kind
	for _, k := range kinds {
		rarity := 3
		if len(kinds) < 6 { // so few kinds are all used, except Large
			rarity = 1
		}
		if k == Large { // as expensive as a hundred histories
			rarity = 60
		}
		if r.IntN(rarity) == 0 {
			some = append(some, k)
		}
	}
	weights := []int{14, 3, 3, 9, 6, 1, 7, 2}
	loads := 44 + r.IntN(24)
	faults := 0
	if len(some) > 0 {
		faults = 10 + r.IntN(26)
	}
	for range loads {
		p.Items = append(p.Items, Item{Kind: Requests[weighted(r, weights)]})
	}
	for range faults {
		p.Items = append(p.Items, Item{Kind: some[r.IntN(len(some))]})
	}
	r.Shuffle(len(p.Items), func(i, j int) { p.Items[i], p.Items[j] = p.Items[j], p.Items[i] })
	gap := []int{1, 6, 25}[r.IntN(3)]
	for i := range p.Items {
		p.Items[i].After, p.Items[i].N, p.Items[i].M = r.IntN(2*gap), r.IntN(1<<20), r.IntN(1<<20)
	}
	return p
}

func weighted(r *rand.Rand, weights []int) int {
	n := 0
	for _, w := range weights {
		n += w
	}
	n = r.IntN(n)
	for i, w := range weights {
		if n < w {
			return i
		}
		n -= w
	}
	return 0
}

// Prose describes the plan, one line for each item.
func (p Plan) Prose() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%d workers, %d bindings, %d tenants, limit %d, network ranges %t\n", p.Workers, p.Bindings, p.Tenants, p.Limit, p.Networks)
	for _, i := range p.Items {
		fmt.Fprintf(&text, "  %s\n", i)
	}
	return text.String()
}

// Without returns the plan without the items i to j-1.
func (p Plan) Without(i, j int) Plan {
	p.Items = slices.Concat(p.Items[:i:i], p.Items[j:])
	return p
}

// AtOnce returns the plan with at most one step before each of the items i to j-1.
func (p Plan) AtOnce(i, j int) Plan {
	p.Items = slices.Clone(p.Items)
	for ; i < j; i++ {
		p.Items[i].After = 0
	}
	return p
}
