package policy

import (
	"io/fs"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"
)

// LoadTree reads the catalog from a directory tree of OCF manifests: all files
// *.yaml and *.yml that are not below a hidden directory, each with one or
// several YAML documents. The error is a Faults that names every invalid
// manifest by file and line, or that of the file system.
func LoadTree(tree fs.FS) (*Catalog, error) {
	g := newGatherer()
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name != "." && strings.HasPrefix(d.Name(), "."):
			// A mounted ConfigMap has its files twice, once below ..data.
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir() || !isManifest(name):
			return nil
		}
		content, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		g.read(name, path.Dir(name), content)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(g.places) == 0 && len(g.faults) == 0 {
		g.file = ""
		g.fault(0, "", Missing, "the directory has no manifest; put *.yaml files with Interfaces and Implementations there")
	}
	return g.catalog()
}

func isManifest(name string) bool {
	switch path.Ext(name) {
	case ".yaml", ".yml":
		return true
	}
	return false
}

// LoadFile reads the catalog from one file: YAML documents, each an OCF manifest,
// or one JSON or YAML document with the fields interfaces and implementations.
// The error is a Faults with everything that is wrong; name is where it was found.
func LoadFile(name string, content []byte) (*Catalog, error) {
	g := newGatherer()
	g.read(name, ".", content)
	if len(g.places) == 0 && len(g.faults) == 0 && !g.short {
		g.fault(0, "", Missing, "the file has no manifest; write Interfaces and Implementations")
	}
	return g.catalog()
}

func (g *gatherer) read(name, dir string, content []byte) {
	g.file = name
	docs := g.documents(content)
	if len(docs) == 1 && isShort(docs[0]) {
		g.short = true
		g.shortForm(docs[0])
		return
	}
	for _, n := range docs {
		g.manifest(n, dir)
	}
}

// isShort tells the short form from a manifest: it says of what it lists, not what it is.
func isShort(n *yaml.Node) bool {
	if n.Kind != yaml.MappingNode {
		return false
	}
	lists := len(n.Content) == 0
	for i := 0; i+1 < len(n.Content); i += 2 {
		switch n.Content[i].Value {
		case "kind", "ocfVersion":
			return false
		case "interfaces", "implementations":
			lists = true
		}
	}
	return lists
}

// shortForm reads a whole catalog from one document.
func (g *gatherer) shortForm(n *yaml.Node) {
	o, ok := g.object(n, "", "interfaces", "implementations")
	if !ok {
		return
	}
	if n, ok := o.fields["interfaces"]; ok {
		items, _ := g.list(n, "interfaces")
		for i, n := range items {
			at := item("interfaces", i)
			if o, ok := g.object(n, at); ok {
				ref := Ref{Path: g.path(o, "path", "cap.interface.database.postgresql.install"), Revision: g.revision(o, true)}
				g.register("Interface", ref, n.Line, at)
				g.interfaces = append(g.interfaces, ref)
			}
		}
	}
	if n, ok := o.fields["implementations"]; ok {
		items, _ := g.list(n, "implementations")
		for i, n := range items {
			g.shortImplementation(n, item("implementations", i))
		}
	}
}

func (g *gatherer) shortImplementation(n *yaml.Node, at string) {
	o, ok := g.object(n, at)
	if !ok {
		return
	}
	im := Implementation{Line: n.Line, File: g.file}
	im.Ref = Ref{Path: g.path(o, "path", "cap.implementation.bitnami.postgresql.install"), Revision: g.revision(o, true)}
	g.register("Implementation", im.Ref, n.Line, at)
	im.Implements = g.implements(o)
	if n, ok := o.fields["attributes"]; ok {
		im.Attributes = g.revised(n, below(at, "attributes"), "cap.attribute.cloud.provider.gcp")
	}
	if n, ok := o.fields["requires"]; ok {
		items, _ := g.list(n, below(at, "requires"))
		for i, n := range items {
			if o, ok := g.object(n, item(below(at, "requires"), i)); ok {
				im.Requires = append(im.Requires, g.shortRequirement(o))
			}
		}
	}
	g.implementations = append(g.implementations, im)
}

func (g *gatherer) shortRequirement(o object) Requirement {
	prefix := ""
	if n, ok := o.fields["prefix"]; ok {
		prefix = g.text(n, below(o.at, "prefix"))
	}
	return g.sections(o, prefix, func(o object) Ref {
		return Ref{Path: g.path(o, "path", "cap.type.gcp.auth.service-account"), Revision: g.revision(o, true)}
	})
}
