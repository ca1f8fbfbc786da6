package network

import (
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// answer says whether one cluster can match two selectors, as far as that is known without the cluster.
type answer int

const (
	no    answer = iota // no cluster matches both
	maybe               // depends on labels and purposes of a cluster that one selector names
	yes                 // some cluster could match both
)

// meet says whether one cluster can match both selectors. It decides labels and purposes exactly: any
// combination that does not contradict itself may occur. For a cluster that one selector names, it is unknown
// whether it has the labels that the other asks for.
func meet(a, b Selector) answer {
	switch {
	case a.ByIdentity && b.ByIdentity:
		if slices.ContainsFunc(a.Identities, func(i Identity) bool { return slices.Contains(b.Identities, i) }) {
			return yes
		}
		return no
	case b.ByIdentity:
		return meet(b, a)
	case a.ByIdentity && (len(a.Identities) == 0 || !possible(b)):
		return no
	case a.ByIdentity && len(b.Labels)+len(b.Purposes) > 0:
		return maybe
	case a.ByIdentity:
		return yes
	}
	both := Selector{Labels: slices.Concat(a.Labels, b.Labels), Purposes: slices.Concat(a.Purposes, b.Purposes)}
	if possible(both) {
		return yes
	}
	return no
}

// possible reports whether labels and purposes exist that the selector matches.
func possible(s Selector) bool {
	byKey := map[string][]labels.Requirement{}
	for _, r := range s.Labels {
		byKey[r.Key()] = append(byKey[r.Key()], r)
	}
	for key, requirements := range byKey {
		if !labelPossible(key, requirements) {
			return false
		}
	}
	return purposesPossible(s.Purposes)
}

// labelPossible tries every value of a key that can make a difference: none, each value in a requirement, and
// one that no NotIn lists.
func labelPossible(key string, requirements []labels.Requirement) bool {
	candidates := []labels.Set{{}}
	other := "v"
	for _, r := range requirements {
		for value := range r.Values() {
			candidates = append(candidates, labels.Set{key: value})
			if r.Operator() == selection.NotIn && len(value) >= len(other) {
				other = value + "v"
			}
		}
	}
	candidates = append(candidates, labels.Set{key: other})
	return slices.ContainsFunc(candidates, func(set labels.Set) bool {
		return !slices.ContainsFunc(requirements, func(r labels.Requirement) bool { return !r.Matches(set) })
	})
}

// purposesPossible reports whether a set of purposes can satisfy all entries. It tries the set that an Equals
// entry fixes, or else the largest set that the entries allow.
func purposesPossible(entries []Purposes) bool {
	var set []string
	for _, e := range entries {
		if e.Operator == Equals {
			return fits(entries, e.Values)
		}
		set = append(set, e.Values...)
	}
	for _, e := range entries {
		if e.Operator == ContainsNone {
			set = slices.DeleteFunc(set, func(v string) bool { return slices.Contains(e.Values, v) })
		}
	}
	return fits(entries, set)
}

func fits(entries []Purposes, purposes []string) bool {
	return !slices.ContainsFunc(entries, func(e Purposes) bool { return !e.match(purposes) })
}
