package policy

import (
	"slices"
	"strings"
)

// Implementation is one revision of a way to provide Interfaces. All readers of the catalog share it: do not
// modify it.
type Implementation struct {
	Ref

	Implements []Ref
	Attributes []Ref
	Requires   []Requirement // by prefix

	// Workflow is spec.action.args.workflow, as document.Node.Value returns it; nil
	// if the manifest has none.
	Workflow map[string]any

	// Providers are the names of its attributes cap.attribute.cloud.provider.<name>,
	// sorted.
	Providers []string

	File string // of the manifest, as LoadTree or the caller of LoadFile names it
	Line int
}

// Requirement is an entry of spec.requires: all of AllOf, at least one of AnyOf
// and exactly one of OneOf have to be available; an empty list is satisfied.
type Requirement struct {
	Prefix              string
	OneOf, AllOf, AnyOf []Required
}

// Required is a required Type. It has an alias if a TypeInstance may be injected for it.
type Required struct {
	Ref

	Alias string
}

// each calls visit for every required Type in the order of injection until visit returns false. It reports
// whether it visited all of them.
func (q *Requirement) each(visit func(*Required) bool) bool {
	for _, section := range [][]Required{q.OneOf, q.AllOf, q.AnyOf} {
		for i := range section {
			if !visit(&section[i]) {
				return false
			}
		}
	}
	return true
}

// iface is one revision of an Interface.
type iface struct {
	Ref

	key   string // path:revision, as a rule names it
	found set    // the implementations of it
}

// Catalog stores all Interfaces and Implementations, indexed by every condition that a policy can name. The
// number of an Implementation is its index in implementations, which are in the order in which matches are
// listed.
type Catalog struct {
	implementations []Implementation
	interfaces      map[string][]*iface // by path, the newest revision first

	named      map[string]*set // by the path of the implementation
	attributed map[Ref]*set    // by attribute, with and without its revision
	requiring  map[Ref]*set    // by required Type, with and without its revision
}

// Len returns the number of Implementations; each revision counts.
func (c *Catalog) Len() int { return len(c.implementations) }

// Interfaces returns all Interfaces by path, the newest revision of each path first.
func (c *Catalog) Interfaces() []Ref {
	var all []Ref
	for _, revisions := range c.interfaces {
		for _, i := range revisions {
			all = append(all, i.Ref)
		}
	}
	slices.SortFunc(all, byPath)
	return all
}

// Implementation returns the Implementation with this path and revision, and whether there is one.
func (c *Catalog) Implementation(ref Ref) (*Implementation, bool) {
	i, found := slices.BinarySearchFunc(c.implementations, ref, func(have Implementation, want Ref) int {
		return byPath(have.Ref, want)
	})
	if !found {
		return nil, false
	}
	return &c.implementations[i], true
}

// find returns the Interface that ref names, the newest revision if ref has none; nil for an unknown one.
func (c *Catalog) find(ref Ref) *iface {
	for _, i := range c.interfaces[ref.Path] {
		if ref.covers(i.Ref) {
			return i
		}
	}
	return nil
}

// newCatalog sorts and indexes the Interfaces and Implementations that were read.
func newCatalog(interfaces []Ref, implementations []Implementation) *Catalog {
	c := &Catalog{
		implementations: implementations, interfaces: map[string][]*iface{},
		named: map[string]*set{}, attributed: map[Ref]*set{}, requiring: map[Ref]*set{},
	}
	slices.SortFunc(c.implementations, func(a, b Implementation) int { return byPath(a.Ref, b.Ref) })
	slices.SortFunc(interfaces, byPath)
	byRef := make(map[Ref]*iface, len(interfaces))
	for _, ref := range interfaces {
		i := &iface{Ref: ref, key: ref.String()}
		byRef[ref] = i
		c.interfaces[ref.Path] = append(c.interfaces[ref.Path], i)
	}
	for n := range c.implementations {
		c.enter(uint32(n), byRef)
	}
	c.seal(byRef)
	return c
}

// enter adds an implementation to the sets of the conditions that it meets and of the Interfaces that it
// implements. It also sorts its Requires and sets its Providers.
func (c *Catalog) enter(n uint32, interfaces map[Ref]*iface) {
	im := &c.implementations[n]
	slices.SortStableFunc(im.Requires, func(a, b Requirement) int { return strings.Compare(a.Prefix, b.Prefix) })
	add(c.named, im.Path, n)
	for _, a := range im.Attributes {
		add(c.attributed, a, n)
		add(c.attributed, Ref{Path: a.Path}, n)
		if name, is := strings.CutPrefix(a.Path, providerAttribute); is && !slices.Contains(im.Providers, name) {
			im.Providers = append(im.Providers, name)
		}
	}
	slices.Sort(im.Providers)
	for i := range im.Requires {
		im.Requires[i].each(func(q *Required) bool {
			add(c.requiring, q.Ref, n)
			add(c.requiring, Ref{Path: q.Path}, n)
			return true
		})
	}
	for _, ref := range im.Implements {
		if i, known := interfaces[ref]; known {
			i.found.add(n)
		}
	}
}

// seal seals every set of the catalog.
func (c *Catalog) seal(interfaces map[Ref]*iface) {
	total := len(c.implementations)
	for _, i := range interfaces {
		i.found.seal(total)
	}
	for _, s := range c.named {
		s.seal(total)
	}
	for _, index := range []map[Ref]*set{c.attributed, c.requiring} {
		for _, s := range index {
			s.seal(total)
		}
	}
}

func add[K comparable](index map[K]*set, key K, n uint32) {
	s := index[key]
	if s == nil {
		s = &set{}
		index[key] = s
	}
	s.add(n)
}
