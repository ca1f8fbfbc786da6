package network

import (
	"slices"

	"k8s.io/apimachinery/pkg/labels"
)

// Identity names one cluster.
type Identity struct {
	Name      string
	Namespace string
}

// Operator compares the purposes of a cluster with values.
type Operator string

// The operators of matchPurposes.
const (
	ContainsAll  Operator = "ContainsAll"  // every value is there; true without values
	ContainsAny  Operator = "ContainsAny"  // at least one value is there; false without values
	ContainsNone Operator = "ContainsNone" // no value is there; true without values
	Equals       Operator = "Equals"       // the same set, order and duplicates ignored
)

// Purposes is one entry of matchPurposes.
type Purposes struct {
	Operator Operator
	Values   []string
}

// Selector chooses clusters. Its parts are ANDed; the zero Selector matches every cluster.
type Selector struct {
	// ByIdentity means that Identities alone decide. An empty list then matches no cluster.
	ByIdentity bool
	Identities []Identity
	// Labels are matchLabels and matchExpressions.
	Labels   []labels.Requirement
	Purposes []Purposes
}

// Matches reports whether the selector chooses the cluster.
func (s Selector) Matches(c Cluster) bool {
	if s.ByIdentity {
		return slices.Contains(s.Identities, Identity{Name: c.Name, Namespace: c.Namespace})
	}
	for i := range s.Labels {
		if !s.Labels[i].Matches(labels.Set(c.Labels)) {
			return false
		}
	}
	for _, p := range s.Purposes {
		if !p.match(c.Purposes) {
			return false
		}
	}
	return true
}

func (p Purposes) match(purposes []string) bool {
	has := func(value string) bool { return slices.Contains(purposes, value) }
	switch p.Operator {
	case ContainsAll:
		return every(p.Values, has)
	case ContainsAny:
		return slices.ContainsFunc(p.Values, has)
	case ContainsNone:
		return !slices.ContainsFunc(p.Values, has)
	case Equals:
		return every(p.Values, has) && every(purposes, func(v string) bool { return slices.Contains(p.Values, v) })
	}
	return false
}

func every(values []string, is func(string) bool) bool {
	return !slices.ContainsFunc(values, func(v string) bool { return !is(v) })
}
