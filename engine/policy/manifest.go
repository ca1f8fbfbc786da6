package policy

import (
	"slices"
	"strings"

	"github.com/hap-worker/hap-worker/engine/document"
	"github.com/hap-worker/hap-worker/engine/spelling"
)

// The kinds of OCF manifests: those that are read, and those that are ignored.
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
	document.Reader

	interfaces      []Ref
	implementations []Implementation
	places          map[known]place
	short           bool // the file is in the short form
}

func newGatherer() *gatherer { return &gatherer{places: map[known]place{}} }

// catalog returns the catalog of what was read, or the faults.
func (g *gatherer) catalog() (*Catalog, error) {
	if err := g.Faults.Sorted().OrNil(); err != nil {
		return nil, err
	}
	return newCatalog(g.interfaces, g.implementations), nil
}

// register records the place of a manifest. A second manifest with the same kind, path and revision is a
// fault.
func (g *gatherer) register(kind string, ref Ref, n document.Node) {
	if ref.Path == "" || ref.Revision == "" {
		return // a fault already
	}
	id := known{kind: kind, Ref: ref}
	if first, twice := g.places[id]; twice {
		n.Fault(document.Duplicate, "%s %s is there twice, first %s; keep one, or give it another revision", kind, ref, first)
		return
	}
	g.places[id] = place{file: g.File, line: n.Line}
}

func (p place) String() string {
	where := document.Fault{File: p.file, Line: p.line}.Error()
	return "at " + strings.TrimSuffix(where, ": ")
}

// manifest reads one OCF manifest that was found in directory dir of the tree.
func (g *gatherer) manifest(n document.Node, dir string) {
	o, ok := n.Object()
	if !ok {
		return
	}
	kind, ok := need(o, "kind", "Implementation, Interface, Type or Attribute")
	switch {
	case !ok || slices.Contains(passedKinds, kind):
		return
	case !slices.Contains(readKinds, kind):
		n, _ := o.Get("kind")
		n.Fault(document.Syntax, "%q is no kind of OCF manifest; %s", kind, document.Meant(kind, readKinds))
		return
	}
	if version, ok := need(o, "ocfVersion", "0.0.1"); ok && version != "0.0.1" {
		n, _ := o.Get("ocfVersion")
		n.Fault(Version, "%q is not supported; write 0.0.1", version)
	}
	metadata, ref := identity(o, dir)
	g.register(kind, ref, n)
	switch kind {
	case "Interface":
		g.interfaces = append(g.interfaces, ref)
	case "Implementation":
		im := Implementation{Ref: ref, File: g.File, Line: o.Line}
		im.Attributes = attributes(metadata)
		im.spec(o)
		g.implementations = append(g.implementations, im)
	}
}

// identity returns the metadata of a manifest with its path and revision. The path is metadata.path, or else
// "cap.", the directory and metadata.name, joined by dots.
func identity(o document.Object, dir string) (document.Object, Ref) {
	ref := Ref{Revision: revisionOf(o, true)}
	n, ok := o.Get("metadata")
	if !ok {
		o.Missing("metadata", "write metadata: {name: install}")
		return document.Object{}, ref
	}
	metadata, ok := n.Object()
	if !ok {
		return document.Object{}, ref
	}
	if _, ok := metadata.Get("path"); ok {
		ref.Path = pathOf(metadata, "path", "cap.implementation.bitnami.postgresql.install")
		return metadata, ref
	}
	name, ok := need(metadata, "name", "the last part of its path")
	if !ok {
		return metadata, ref
	}
	ref.Path = root + strings.ReplaceAll(strings.TrimPrefix(dir+"/", "./")+name, "/", ".")
	if strings.Contains(name, "/") || !pathForm.MatchString(ref.Path) {
		n, _ := metadata.Get("name")
		if !n.Strange(spelling.Foreign) {
			n.Fault(document.Syntax,
				"directory and name make %q, which is no path; use letters, digits, - and _, or write metadata.path in full", ref.Path)
		}
		ref.Path = ""
	}
	return metadata, ref
}

// attributes reads metadata.attributes, a map from path to {revision}.
func attributes(metadata document.Object) []Ref {
	n, ok := metadata.Get("attributes")
	if !ok {
		return nil
	}
	entries, _ := n.Object()
	var all []Ref
	for _, n := range entries.Fields {
		if !pathForm.MatchString(n.Name) && !n.StrangeName(spelling.Foreign) {
			n.KeyFault(document.Syntax, "is no path; write it in full, such as cap.attribute.cloud.provider.gcp")
		}
		if o, ok := n.Object(); ok {
			all = append(all, Ref{Path: n.Name, Revision: revisionOf(o, true)})
		}
	}
	return all
}

func (im *Implementation) spec(o document.Object) {
	n, ok := o.Get("spec")
	if !ok {
		o.Missing("spec", "write spec.implements at least")
		return
	}
	spec, ok := n.Object()
	if !ok {
		return
	}
	im.Implements = implements(spec)
	if n, ok := spec.Get("requires"); ok {
		entries, _ := n.Object()
		for _, n := range entries.Fields {
			im.Requires = append(im.Requires, requirement(n))
		}
	}
	im.Workflow = workflowOf(spec)
}

// implements reads the required list of Interfaces.
func implements(o document.Object) []Ref {
	n, ok := o.Get("implements")
	if !ok {
		o.Missing("implements", "list the interfaces, each as {path, revision}")
		return nil
	}
	return refs(n, true, "cap.interface.database.postgresql.install")
}

// sectionKeys are the keys of a requirement.
var sectionKeys = []string{"oneOf", "allOf", "anyOf"}

// requirement reads an entry of spec.requires. Its key is the prefix of the paths of the Types in it, except for
// a Type whose name is a whole path.
func requirement(n document.Node) Requirement {
	prefix := n.Name
	if !pathForm.MatchString(prefix) && !n.StrangeName(spelling.Foreign) {
		n.KeyFault(document.Syntax, "is no prefix of a path; write one such as cap.type.gcp.auth")
	}
	o, ok := n.Object(sectionKeys...)
	if !ok {
		return Requirement{}
	}
	return sections(o, prefix, func(o document.Object) Ref {
		name, ok := need(o, "name", "that of a Type")
		if ok && !strings.HasPrefix(name, root) {
			name = prefix + "." + name
		}
		if ok && pathForm.MatchString(prefix) && !pathForm.MatchString(name) {
			n, _ := o.Get("name")
			if n.Strange(spelling.Foreign) {
				return Ref{}
			}
			n.Fault(document.Syntax, "%q is no path; use letters, digits, - and _", name)
		}
		return Ref{Path: name, Revision: revisionOf(o, true)}
	})
}

// sections reads the lists oneOf, allOf and anyOf; ref reads the Type of an item.
func sections(o document.Object, prefix string, ref func(document.Object) Ref) Requirement {
	q := Requirement{Prefix: prefix}
	for i, into := range []*[]Required{&q.OneOf, &q.AllOf, &q.AnyOf} {
		n, ok := o.Get(sectionKeys[i])
		if !ok {
			continue
		}
		items, _ := n.List()
		for _, n := range items {
			o, ok := n.Object()
			if !ok {
				continue
			}
			required := Required{Ref: ref(o)}
			if alias, ok := o.Get("alias"); ok {
				required.Alias = text(alias)
			}
			*into = append(*into, required)
		}
	}
	return q
}

// workflowOf reads spec.action.args.workflow; nil where any of these is absent.
func workflowOf(o document.Object) map[string]any {
	for _, field := range []string{"action", "args", "workflow"} {
		n, ok := o.Get(field)
		if !ok {
			return nil
		}
		if o, ok = n.Object(); !ok {
			return nil
		}
	}
	workflow, _ := o.Value().(map[string]any)
	return workflow
}
