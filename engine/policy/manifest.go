package policy

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The kinds of OCF manifests: those that are read, and those that a hub's content
// has besides, which say nothing that is asked here.
var (
	readKinds   = []string{"Implementation", "Interface", "Type", "Attribute"}
	passedKinds = []string{"InterfaceGroup", "RepoMetadata", "Vendor", "TypeInstance"}
)

// known is the identity of a manifest.
type known struct {
	kind string
	Ref
}

// place is where a manifest was read.
type place struct {
	file string
	line int
}

// gatherer reads a catalog, file by file.
type gatherer struct {
	reader

	interfaces      []Ref
	implementations []Implementation
	places          map[known]place
	short           bool // it is one document that lists everything
}

func newGatherer() *gatherer { return &gatherer{places: map[known]place{}} }

// catalog gives what was read, or every fault of it.
func (g *gatherer) catalog() (*Catalog, error) {
	if err := g.faults.orNil(); err != nil {
		return nil, err
	}
	return newCatalog(g.interfaces, g.implementations), nil
}

// register notes an identity; the same one twice is a fault.
func (g *gatherer) register(kind string, ref Ref, line int, at string) {
	if ref.Path == "" || ref.Revision == "" {
		return // a fault already
	}
	id := known{kind: kind, Ref: ref}
	if first, twice := g.places[id]; twice {
		g.fault(line, at, Duplicate, "%s %s is there twice, first %s; keep one, or give it another revision", kind, ref, first)
		return
	}
	g.places[id] = place{file: g.file, line: line}
}

func (p place) String() string {
	where := Fault{File: p.file, Line: p.line}.Error()
	return "at " + strings.TrimSuffix(where, ": ")
}

// manifest reads one OCF manifest that was found in directory dir of the tree.
func (g *gatherer) manifest(n *yaml.Node, dir string) {
	o, ok := g.object(n, "")
	if !ok {
		return
	}
	kind, ok := g.need(o, "kind", "Implementation, Interface, Type or Attribute")
	switch {
	case !ok || slices.Contains(passedKinds, kind):
		return
	case !slices.Contains(readKinds, kind):
		g.fault(o.fields["kind"].Line, "kind", Syntax, "%q is no kind of OCF manifest; %s", kind, meant(kind, readKinds))
		return
	}
	if version, ok := g.need(o, "ocfVersion", "0.0.1"); ok && version != "0.0.1" {
		g.fault(o.fields["ocfVersion"].Line, "ocfVersion", Version, "%q is not supported; write 0.0.1", version)
	}
	metadata, ref := g.identity(o, dir)
	g.register(kind, ref, o.line, "")
	switch kind {
	case "Interface":
		g.interfaces = append(g.interfaces, ref)
	case "Implementation":
		im := Implementation{Ref: ref, File: g.file, Line: o.line}
		im.Attributes = g.attributes(metadata)
		g.spec(o, &im)
		g.implementations = append(g.implementations, im)
	}
}

// identity is the path and revision of a manifest: metadata.path, or what its
// directory and metadata.name make.
func (g *gatherer) identity(o object, dir string) (object, Ref) {
	ref := Ref{Revision: g.revision(o, true)}
	n, ok := o.fields["metadata"]
	if !ok {
		g.fault(o.line, "metadata", Missing, "is missing; write metadata: {name: install}")
		return object{}, ref
	}
	metadata, ok := g.object(n, "metadata")
	if !ok {
		return object{}, ref
	}
	if _, ok := metadata.fields["path"]; ok {
		ref.Path = g.path(metadata, "path", "cap.implementation.bitnami.postgresql.install")
		return metadata, ref
	}
	name, ok := g.need(metadata, "name", "the last part of its path")
	if !ok {
		return metadata, ref
	}
	ref.Path = root + strings.ReplaceAll(strings.TrimPrefix(dir+"/", "./")+name, "/", ".")
	if strings.Contains(name, "/") || !pathForm.MatchString(ref.Path) {
		g.fault(metadata.fields["name"].Line, "metadata.name", Syntax,
			"directory and name make %q, which is no path; use letters, digits, - and _, or write metadata.path in full", ref.Path)
		ref.Path = ""
	}
	return metadata, ref
}

// attributes reads metadata.attributes, a map from path to {revision}.
func (g *gatherer) attributes(metadata object) []Ref {
	n, ok := metadata.fields["attributes"]
	if !ok {
		return nil
	}
	const at = "metadata.attributes"
	entries, _ := g.mapping(n, at)
	var all []Ref
	for _, e := range entries {
		at := item(at, e.key)
		if !pathForm.MatchString(e.key) {
			g.fault(e.line, at, Syntax, "is no path; write it in full, such as cap.attribute.cloud.provider.gcp")
		}
		if o, ok := g.object(e.value, at); ok {
			all = append(all, Ref{Path: e.key, Revision: g.revision(o, true)})
		}
	}
	return all
}

func (g *gatherer) spec(o object, im *Implementation) {
	n, ok := o.fields["spec"]
	if !ok {
		g.fault(o.line, "spec", Missing, "is missing; write spec.implements at least")
		return
	}
	spec, ok := g.object(n, "spec")
	if !ok {
		return
	}
	im.Implements = g.implements(spec)
	if n, ok := spec.fields["requires"]; ok {
		entries, _ := g.mapping(n, "spec.requires")
		for _, e := range entries {
			im.Requires = append(im.Requires, g.requirement(e))
		}
	}
	im.Workflow = g.workflow(spec)
}

// implements reads a list of Interfaces, which must be there.
func (g *gatherer) implements(o object) []Ref {
	at := below(o.at, "implements")
	n, ok := o.fields["implements"]
	if !ok {
		g.fault(o.line, at, Missing, "is missing; list the interfaces, each as {path, revision}")
		return nil
	}
	return g.revised(n, at, "cap.interface.database.postgresql.install")
}

// revised reads a list of {path, revision}.
func (g *gatherer) revised(n *yaml.Node, at, example string) []Ref {
	items, _ := g.list(n, at)
	var all []Ref
	for i, n := range items {
		if o, ok := g.object(n, item(at, i)); ok {
			all = append(all, Ref{Path: g.path(o, "path", example), Revision: g.revision(o, true)})
		}
	}
	return all
}

// sections are the keys of a requirement.
var sections = []string{"oneOf", "allOf", "anyOf"}

// requirement reads an entry of spec.requires, whose key is the prefix of what it lists.
func (g *gatherer) requirement(e entry) Requirement {
	at := item("spec.requires", e.key)
	if !pathForm.MatchString(e.key) {
		g.fault(e.line, at, Syntax, "is no prefix of a path; write one such as cap.type.gcp.auth")
	}
	o, ok := g.object(e.value, at, sections...)
	if !ok {
		return Requirement{}
	}
	return g.sections(o, e.key, func(o object) Ref {
		name, ok := g.need(o, "name", "that of a Type")
		if ok && !strings.HasPrefix(name, root) {
			name = e.key + "." + name
		}
		if ok && pathForm.MatchString(e.key) && !pathForm.MatchString(name) {
			g.fault(o.fields["name"].Line, below(o.at, "name"), Syntax, "%q is no path; use letters, digits, - and _", name)
		}
		return Ref{Path: name, Revision: g.revision(o, true)}
	})
}

// sections reads oneOf, allOf and anyOf; ref reads what an item names.
func (g *gatherer) sections(o object, prefix string, ref func(object) Ref) Requirement {
	q := Requirement{Prefix: prefix}
	for i, into := range []*[]Required{&q.OneOf, &q.AllOf, &q.AnyOf} {
		n, ok := o.fields[sections[i]]
		if !ok {
			continue
		}
		at := below(o.at, sections[i])
		items, _ := g.list(n, at)
		for i, n := range items {
			o, ok := g.object(n, item(at, i))
			if !ok {
				continue
			}
			required := Required{Ref: ref(o)}
			if alias, ok := o.fields["alias"]; ok {
				required.Alias = g.text(alias, below(o.at, "alias"))
			}
			*into = append(*into, required)
		}
	}
	return q
}

// workflow reads spec.action.args.workflow; nil where any of these is absent.
func (g *gatherer) workflow(o object) map[string]any {
	for _, field := range []string{"action", "args"} {
		n, ok := o.fields[field]
		if !ok {
			return nil
		}
		if o, ok = g.object(n, below(o.at, field)); !ok {
			return nil
		}
	}
	n, ok := o.fields["workflow"]
	if !ok {
		return nil
	}
	at := below(o.at, "workflow")
	if _, ok := g.mapping(n, at); !ok {
		return nil
	}
	workflow, _ := g.value(n, at).(map[string]any)
	return workflow
}
