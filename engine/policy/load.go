package policy

import (
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/hap-worker/hap-worker/engine/document"
)

// LoadTree reads the catalog from a directory tree of OCF manifests: all files *.yaml and *.yml except hidden
// ones and those below a hidden directory, each read as by LoadFile. The error is a [document.Faults] that
// names every invalid manifest by file and line, or an error of the file system.
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
	if len(g.places) == 0 && len(g.Faults) == 0 {
		g.File = ""
		g.Whole(document.Missing, "the directory has no manifest; put *.yaml files with Interfaces and Implementations there")
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

// LoadFile reads the catalog from one file: YAML documents, each an OCF manifest, or one JSON or YAML
// document with the fields interfaces and implementations. The error is a [document.Faults] whose faults
// name the file as name.
func LoadFile(name string, content []byte) (*Catalog, error) {
	g := newGatherer()
	g.read(name, ".", content)
	if len(g.places) == 0 && len(g.Faults) == 0 && !g.short {
		g.Whole(document.Missing, "the file has no manifest; write Interfaces and Implementations")
	}
	return g.catalog()
}

func (g *gatherer) read(name, dir string, content []byte) {
	g.File = name
	docs := g.All(content)
	if len(docs) == 1 && isShort(docs[0]) {
		g.short = true
		g.shortForm(docs[0])
		return
	}
	for _, n := range docs {
		g.manifest(n, dir)
	}
}

// isShort reports whether the document is in the short form: it has neither kind nor ocfVersion, and it lists
// interfaces or implementations or is an empty mapping.
func isShort(n document.Node) bool {
	has := n.Names()
	if slices.Contains(has, "kind") || slices.Contains(has, "ocfVersion") {
		return false
	}
	return n.Mapping() && len(has) == 0 || slices.Contains(has, "interfaces") || slices.Contains(has, "implementations")
}

// shortForm reads a whole catalog from one document.
func (g *gatherer) shortForm(n document.Node) {
	o, ok := n.Object("interfaces", "implementations")
	if !ok {
		return
	}
	if n, ok := o.Get("interfaces"); ok {
		items, _ := n.List()
		for _, n := range items {
			if o, ok := n.Object(); ok {
				ref := Ref{Path: pathOf(o, "path", "cap.interface.database.postgresql.install"), Revision: revisionOf(o, true)}
				g.register("Interface", ref, n)
				g.interfaces = append(g.interfaces, ref)
			}
		}
	}
	if n, ok := o.Get("implementations"); ok {
		items, _ := n.List()
		for _, n := range items {
			g.shortImplementation(n)
		}
	}
}

func (g *gatherer) shortImplementation(n document.Node) {
	o, ok := n.Object()
	if !ok {
		return
	}
	im := Implementation{Line: n.Line, File: g.File}
	im.Ref = Ref{Path: pathOf(o, "path", "cap.implementation.bitnami.postgresql.install"), Revision: revisionOf(o, true)}
	g.register("Implementation", im.Ref, n)
	im.Implements = implements(o)
	if n, ok := o.Get("attributes"); ok {
		im.Attributes = refs(n, true, "cap.attribute.cloud.provider.gcp")
	}
	if n, ok := o.Get("requires"); ok {
		items, _ := n.List()
		for _, n := range items {
			if o, ok := n.Object(); ok {
				im.Requires = append(im.Requires, shortRequirement(o))
			}
		}
	}
	g.implementations = append(g.implementations, im)
}

func shortRequirement(o document.Object) Requirement {
	prefix := ""
	if n, ok := o.Get("prefix"); ok {
		prefix = text(n)
	}
	return sections(o, prefix, func(o document.Object) Ref {
		return Ref{Path: pathOf(o, "path", "cap.type.gcp.auth.service-account"), Revision: revisionOf(o, true)}
	})
}
