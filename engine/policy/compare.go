package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
)

// Digest returns the first 12 hexadecimal digits of content's SHA-256.
func Digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:6])
}

// Difference lists the keys of the rules in which two policies differ, each list sorted. The order of the
// rules in a document does not matter.
type Difference struct {
	Added   []string `json:"added"`
	Removed []string `json:"removed"`
	Changed []string `json:"changed"`
}

// None reports whether there is no difference.
func (d Difference) None() bool { return len(d.Added)+len(d.Removed)+len(d.Changed) == 0 }

// Compare compares two policies by their rules; nil is a policy without rules.
func Compare(before, after *Policy) Difference {
	old, now := rulesByKey(before), rulesByKey(after)
	d := Difference{Added: []string{}, Removed: []string{}, Changed: []string{}}
	for key, alternatives := range now {
		had, known := old[key]
		switch {
		case !known:
			d.Added = append(d.Added, key)
		case !slices.EqualFunc(had, alternatives, sameAlternative):
			d.Changed = append(d.Changed, key)
		}
	}
	for key := range old {
		if _, known := now[key]; !known {
			d.Removed = append(d.Removed, key)
		}
	}
	for _, keys := range [][]string{d.Added, d.Removed, d.Changed} {
		slices.Sort(keys)
	}
	return d
}

func rulesByKey(p *Policy) map[string][]Alternative {
	all := map[string][]Alternative{}
	if p != nil {
		for _, rule := range p.Rules {
			all[rule.Key] = rule.OneOf
		}
	}
	return all
}

// sameAlternative compares two alternatives. An empty list equals a nil one.
func sameAlternative(a, b Alternative) bool {
	return a.Constraints.Path == b.Constraints.Path && slices.Equal(a.Constraints.Attributes, b.Constraints.Attributes) &&
		slices.Equal(a.Constraints.Requires, b.Constraints.Requires) && slices.Equal(a.Inject, b.Inject)
}

// Choice is the result of resolving an interface with one policy.
type Choice struct {
	Picked string     `json:"picked,omitempty"` // the implementation, path:revision; "" for none
	Inject []Injected `json:"inject,omitempty"`
	Reason string     `json:"reason,omitempty"` // why there is none
}

// Changed is an interface that two policies resolve differently.
type Changed struct {
	Interface string `json:"interface"` // path:revision
	Before    Choice `json:"before"`
	After     Choice `json:"after"`
}

// CompareChoices resolves every interface of the catalog, in each revision, with both
// snapshots, and returns those that get another implementation or other TypeInstances.
func CompareChoices(catalog *Catalog, before, after *Snapshot) []Changed {
	all := []Changed{}
	for _, i := range catalog.Interfaces() {
		c := Changed{Interface: i.String(), Before: before.choice(i), After: after.choice(i)}
		if c.Before.Picked != c.After.Picked || !slices.Equal(c.Before.Inject, c.After.Inject) {
			all = append(all, c)
		}
	}
	return all
}

func (s *Snapshot) choice(i Ref) Choice {
	d, err := s.Resolve(i)
	if err != nil {
		return Choice{Reason: err.Error()}
	}
	return Choice{Picked: d.Picked.String(), Inject: d.Inject}
}
