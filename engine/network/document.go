package network

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The group, version and kind of the configuration's manifest.
const (
	APIVersion = "gardener.clusters.openmcp.cloud/v1alpha1"
	ConfigKind = "IPAMConfig"
)

// Parse reads an IPAMConfig, YAML or JSON: the manifest, spec alone, or the
// fields of spec and nothing else. Warnings come with and without an error,
// which is Faults: everything that is wrong, with paths.
func Parse(text []byte) (config *Config, warnings []Fault, err error) {
	r := &reader{}
	doc, ok := r.document(text)
	if !ok {
		return nil, nil, r.faults
	}
	d := decoder{reader: r}
	c := d.config(r.spec(doc))
	d.validate(c)
	if len(r.faults) > 0 {
		return nil, r.warnings, r.faults
	}
	return c, r.warnings, nil
}

// separator begins a YAML document; content is a line that is more than a comment.
var (
	separator = regexp.MustCompile(`(?m)^---(?:[ \t].*)?\r?$`)
	content   = regexp.MustCompile(`(?m)^[ \t]*[^# \t\r\n]`)
)

// document is the file's one YAML document.
func (r *reader) document(text []byte) (node, bool) {
	found := 0
	for _, part := range separator.Split(string(text), -1) {
		if content.MatchString(part) {
			found++
		}
	}
	switch found {
	case 0:
		r.fault(node{}, Syntax, "the configuration is empty; write spec with parentCIDRs and injectionRules")
		return node{}, false
	case 1:
	default:
		r.fault(node{}, Syntax, "the file has %d YAML documents; keep one", found)
		return node{}, false
	}
	var value any
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for value == nil {
		var doc yaml.Node
		if err := decoder.Decode(&doc); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			r.fault(node{}, Syntax, "no YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
			return node{}, false
		}
		value = r.value(node{}, &doc, 0)
	}
	return node{value: value}, len(r.faults) == 0 || value != nil
}

// A document is bounded with its aliases written out, which may contain themselves.
const (
	mostValues = 1 << 18
	mostDepth  = 32
)

// value makes maps, lists, texts, whole numbers, nil and whatever else there is
// of a YAML node. A field that is there twice is a fault, and the first one counts.
func (r *reader) value(at node, n *yaml.Node, depth int) any {
	if depth == mostDepth {
		r.fault(node{}, Syntax, "line %d: the file is nested more than %d deep, or an alias contains itself", n.Line, mostDepth)
		r.values = mostValues // the rest is not looked at
	}
	if r.values++; r.values > mostValues {
		if r.values == mostValues+1 && depth < mostDepth {
			r.fault(node{}, Syntax, "the file has more than %d values with its aliases written out", mostValues)
		}
		return nil
	}
	switch {
	case n.Kind == yaml.DocumentNode:
		return r.value(at, n.Content[0], depth+1)
	case n.Kind == yaml.AliasNode:
		return r.value(at, n.Alias, depth+1)
	case n.Kind == yaml.SequenceNode:
		list := make([]any, len(n.Content))
		for i, item := range n.Content {
			list[i] = r.value(at.at(i), item, depth+1)
		}
		return list
	case n.Kind == yaml.MappingNode:
		return r.fields(at, n, depth+1)
	case n.Tag == "!!timestamp": // a date is a text as any other
		return n.Value
	}
	var scalar any
	if err := n.Decode(&scalar); err != nil {
		r.fault(at, Syntax, "no YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	return scalar
}

func (r *reader) fields(at node, n *yaml.Node, depth int) map[string]any {
	all := make(map[string]any, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, field := n.Content[i], at.field(n.Content[i].Value)
		switch _, twice := all[key.Value]; {
		case key.Kind != yaml.ScalarNode || key.Tag == "!!merge":
			r.fault(at, Syntax, "line %d: the name of a field is no text", key.Line)
		case twice:
			r.fault(field, Duplicate, "line %d: the field is there already", key.Line)
		default:
			all[key.Value] = r.value(field, n.Content[i+1], depth)
		}
	}
	return all
}

// specFields are those of spec, in their order.
var specFields = []string{"internalStateRefreshCycleDuration", "parentCIDRs", "injectionRules"}

// spec finds the fields of spec in any of the three forms.
func (r *reader) spec(doc node) fields {
	all, _ := doc.value.(map[string]any)
	bare := false
	for _, name := range specFields {
		_, there := all[name]
		bare = bare || there
	}
	_, manifest := all["spec"]
	if bare && manifest {
		r.fault(doc, Syntax, "the file has spec and, beside it, fields that belong into it; keep one form")
	}
	if bare {
		return r.object(doc, append([]string{"spec", "apiVersion", "kind", "metadata", "status"}, specFields...)...)
	}
	top := r.object(doc, "apiVersion", "kind", "metadata", "spec", "status")
	r.expect(top, "apiVersion", APIVersion)
	r.expect(top, "kind", ConfigKind)
	spec, ok := top["spec"]
	if !ok {
		if doc.value == nil || all != nil {
			r.fault(doc, Syntax, "there is no spec; write it with parentCIDRs and injectionRules")
		}
		return nil
	}
	return r.object(spec, specFields...)
}

// expect holds a field, where it is given, to its only value.
func (r *reader) expect(top fields, name, want string) {
	if n, ok := top[name]; ok {
		if got, isText := r.text(n); isText && got != want {
			r.fault(n, Value, "%q is not %s", got, want)
		}
	}
}

// plain is a key that needs no quotes in a fault's path.
var plain = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// node is a value of the document and where it stands.
type node struct {
	path  string
	value any
}

func (n node) field(name string) node {
	m, _ := n.value.(map[string]any)
	path := name
	switch {
	case !plain.MatchString(name):
		path = fmt.Sprintf("%s[%q]", n.path, name)
	case n.path != "":
		path = n.path + "." + name
	}
	return node{path: path, value: m[name]}
}

func (n node) item(i int) node {
	list, _ := n.value.([]any)
	item := n.at(i)
	item.value = list[i]
	return item
}

// at is where an item stands, without it.
func (n node) at(i int) node { return node{path: fmt.Sprintf("%s[%d]", n.path, i)} }
