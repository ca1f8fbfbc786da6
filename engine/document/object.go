package document

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/hap-worker/hap-worker/engine/spelling"
)

// Object is a mapping.
type Object struct {
	Node

	Fields []Node // in their order, each name once
}

// Get returns a field, and whether it is there. If it is not, the Node has no value.
func (o Object) Get(name string) (Node, bool) {
	for i := range o.Fields {
		if o.Fields[i].Name == name {
			return o.Fields[i], true
		}
	}
	return o.Field(name), false
}

// Missing adds a fault for a field that must be there.
func (o Object) Missing(name, format string, args ...any) {
	o.Field(name).Fault(Missing, "is missing; "+format, args...)
}

// Object reads a mapping. Without known, any field is allowed; otherwise any other field is a fault and left
// out. If n is no mapping, Object adds a fault, and returns false and an object without fields.
func (n Node) Object(known ...string) (Object, bool) {
	o := Object{Node: n}
	y := n.visit()
	if y == nil {
		return o, false
	}
	if y.Kind != yaml.MappingNode {
		n.Expected("key: value pairs, or {} for none")
		return o, false
	}
	g := gatherer{node: n, seen: make(map[string]int, len(y.Content)/2)}
	g.own(&o, y)
	if n.above != nil {
		g.over(&o, n.above)
	}
	if len(known) > 0 {
		o.Fields = slices.DeleteFunc(o.Fields, func(f Node) bool {
			if slices.Contains(known, f.Name) {
				return false
			}
			f.KeyFault(Unknown, "is no field here; %s", Meant(f.Name, known))
			return true
		})
	}
	return o, true
}

// Meant returns advice for a word that is not one of known, which are ASCII.
func Meant(word string, known []string) string {
	note := ""
	if l, foreign := spelling.Foreign(word); foreign {
		note = fmt.Sprintf("its character %d is %s; ", l.Column, l)
		word = spelling.Fold(word)
	}
	if closest := spelling.Closest(word, known); closest != "" {
		return note + "did you mean " + closest + "?"
	}
	return note + "there are " + strings.Join(known, ", ")
}

// gatherer collects the fields of a mapping and of the mappings that are merged into it.
type gatherer struct {
	node   Node
	seen   map[string]int // the line of a name
	merges int
}

// own adds the fields of y, then those that it merges by the key <<.
func (g *gatherer) own(o *Object, y *yaml.Node) {
	r, merged := g.node.reader, g.merges > 0
	var others []*yaml.Node
	for i := 0; i+1 < len(y.Content); i += 2 {
		key, value := y.Content[i], y.Content[i+1]
		if key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		line, twice := g.seen[key.Value]
		switch {
		case key.Kind != yaml.ScalarNode:
			r.fault(key.Line, key.Column, g.node.Path, Syntax, "a key is %s; write a name", r.describe(key))
		case key.Tag == "!!merge":
			others = append(others, value)
		case twice && !merged:
			r.fault(key.Line, key.Column, g.path(key.Value, value), Duplicate, "is there twice, first on line %d; keep one", line)
		case !twice:
			g.seen[key.Value] = key.Line
			o.Fields = append(o.Fields, Node{
				reader: r, yaml: value, Path: g.path(key.Value, value), Name: key.Value,
				Line: value.Line, Column: value.Column, KeyLine: key.Line,
			})
		}
	}
	for _, other := range others {
		g.merge(o, other)
	}
}

// path returns the path of a field. {url:x} is a name without a value, since the space is missing: if it may be
// secret, path cuts it after url.
func (g *gatherer) path(name string, value *yaml.Node) string {
	if at := strings.IndexFunc(name, odd); at >= 0 && g.node.reader.Private && value.ShortTag() == "!!null" {
		name = name[:at] + "…"
	}
	return Field(g.node.Path, name)
}

func (g *gatherer) merge(o *Object, value *yaml.Node) {
	g.merges++
	defer func() { g.merges-- }()
	from := Node{reader: g.node.reader, yaml: value, Path: Field(g.node.Path, "<<"), Line: value.Line, Column: value.Column}
	y := from.visit()
	switch {
	case y == nil:
	case g.merges > mostMerges:
		from.Fault(Syntax, "is nested more than %d deep, or contains itself", mostMerges)
		g.node.reader.visits = -1 // the rest is not read
	case y.Kind == yaml.MappingNode:
		g.own(o, y)
	case y.Kind == yaml.SequenceNode:
		for _, item := range y.Content {
			g.merge(o, item)
		}
	default:
		from.Expected("a mapping that is merged")
	}
}

// over lays the fields of another mapping over those of the document.
func (g *gatherer) over(o *Object, above *yaml.Node) {
	for i := 0; i+1 < len(above.Content); i += 2 {
		name, value := above.Content[i].Value, above.Content[i+1]
		field := Node{reader: g.node.reader, yaml: value, Path: g.path(name, value), Name: name}
		at := slices.IndexFunc(o.Fields, func(f Node) bool { return f.Name == name })
		switch {
		case at < 0:
			o.Fields = append(o.Fields, field)
		case value.Kind == yaml.MappingNode && o.Fields[at].Mapping():
			o.Fields[at].above = value
		default:
			o.Fields[at] = field
		}
	}
}
