package document

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Node is a value of a document with its line and column.
type Node struct {
	Path         string
	Name         string // of a field
	Line, Column int    // of the value
	KeyLine      int    // of a field: the line of its name; 0 for other nodes

	reader *Reader
	yaml   *yaml.Node
	above  *yaml.Node // a mapping whose values replace those of yaml (see Under); nil for none
}

// Fault adds a fault of the node.
func (n Node) Fault(kind Kind, format string, args ...any) {
	n.reader.fault(n.Line, n.Column, n.Path, kind, format, args...)
}

// KeyFault adds a fault of a field's name.
func (n Node) KeyFault(kind Kind, format string, args ...any) {
	n.reader.fault(cmp.Or(n.KeyLine, n.Line), 0, n.Path, kind, format, args...)
}

// Warn adds a warning about the node.
func (n Node) Warn(kind Kind, format string, args ...any) {
	n.reader.Warnings = append(n.reader.Warnings, n.reader.at(n.Line, n.Column, n.Path, kind, format, args...))
}

// Under returns the mapping n with values laid over it: a mapping in both is merged, anything else replaces
// the value of n. Nodes from values have no line.
func (n Node) Under(values map[string]any) (Node, error) {
	above := &yaml.Node{}
	err := above.Encode(values)
	n.above = above
	return n, err
}

// Field returns a Node without a value for faults about a field of n, which need not exist. It has the path of
// the field, and the line and column of n.
func (n Node) Field(name string) Node {
	return Node{reader: n.reader, Path: Field(n.Path, name), Name: name, Line: n.Line, Column: n.Column, KeyLine: n.KeyLine}
}

// Field returns the path of a field. It puts a name that could be misread into brackets.
func Field(path, name string) string {
	switch {
	case !plain(name):
		return Item(path, name)
	case path == "":
		return name
	}
	return path + "." + name
}

// Item returns the path of an item of a list, or of a field with an unusual name.
func Item[K int | string](path string, key K) string {
	text := fmt.Sprint(key)
	if text == "" || strings.ContainsFunc(text, func(c rune) bool { return c == ' ' || !strconv.IsPrint(c) }) {
		text = strconv.Quote(text)
	}
	return path + "[" + text + "]"
}

// plain reports whether a name needs no brackets in a path.
func plain(name string) bool { return name != "" && !strings.ContainsFunc(name, odd) }

func odd(c rune) bool {
	return c != '_' && c != '-' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z')
}

// resolved returns the YAML node, or its target if it is an alias; nil for none.
func (n Node) resolved() *yaml.Node {
	if n.yaml != nil && n.yaml.Kind == yaml.AliasNode {
		return n.yaml.Alias
	}
	return n.yaml
}

// visit returns the node of resolved, and counts it and its content against the reader's limit of visits. The
// first visit beyond the limit adds a fault; that visit and the later ones in the file return nil.
func (n Node) visit() *yaml.Node {
	y, r := n.resolved(), n.reader
	if y == nil || r.visits < 0 {
		return nil
	}
	if r.visits -= 1 + len(y.Content); r.visits < 0 {
		n.Fault(Syntax, "aliases make the document too large; write less of it by alias")
		return nil
	}
	return y
}

// List reads the items of a list. If n is no list, List adds a fault and returns false.
func (n Node) List() ([]Node, bool) {
	y := n.visit()
	if y == nil {
		return nil, false
	}
	if y.Kind != yaml.SequenceNode {
		n.Expected("a list, or [] for an empty one")
		return nil, false
	}
	items := make([]Node, len(y.Content))
	for i, item := range y.Content {
		items[i] = Node{
			reader: n.reader, yaml: item, Path: Item(n.Path, n.reader.First+i), Line: item.Line, Column: item.Column,
		}
	}
	return items, true
}

// Text reads a string. If n is no string, Text adds a fault and returns false.
func (n Node) Text() (string, bool) {
	text, ok := n.Scalar().(string)
	if !ok {
		n.Expected("a string")
	}
	return text, ok
}

// Texts reads a list of strings. It leaves out other items; each is a fault.
func (n Node) Texts() []string {
	all := []string{}
	items, _ := n.List()
	for _, item := range items {
		if text, ok := item.Text(); ok {
			all = append(all, text)
		}
	}
	return all
}

// Whole reads a whole number. If n is none, Whole adds a fault and returns false.
func (n Node) Whole() (int, bool) {
	if !n.Unambiguous() {
		return 0, false
	}
	value := n.Scalar()
	number, ok := value.(int)
	if _, large := value.(uint64); large {
		n.Expected("a smaller whole number")
	} else if !ok {
		n.Expected("a whole number")
	}
	return number, ok
}

// Scalar returns the node's value as a string, an int, a uint64 above the largest int, a float64 or a bool; nil
// for everything else.
func (n Node) Scalar() any {
	y := n.resolved()
	if y == nil || y.Kind != yaml.ScalarNode {
		return nil
	}
	if y.ShortTag() == "!!str" {
		return y.Value
	}
	var v any
	if y.Decode(&v) != nil {
		return nil
	}
	return v
}

// Spelled returns a scalar as it is written in the document, "" for everything else.
func (n Node) Spelled() string {
	if y := n.resolved(); y != nil && y.Kind == yaml.ScalarNode {
		return y.Value
	}
	return ""
}

// Source returns the node as one line of YAML, "" for a Node without a value.
func (n Node) Source() string {
	y := n.resolved()
	if y == nil {
		return ""
	}
	flow := *y
	flow.Style = yaml.FlowStyle
	source, err := yaml.Marshal(&flow)
	if err != nil {
		n.Fault(Syntax, "is not understood: %v", err)
	}
	return strings.TrimSpace(string(source))
}

// Names returns the keys of a mapping as written, so << if it merges another one, without the merged fields; nil
// for everything else.
func (n Node) Names() []string {
	y := n.resolved()
	if !n.Mapping() {
		return nil
	}
	var names []string
	for i := 0; i+1 < len(y.Content); i += 2 {
		names = append(names, y.Content[i].Value)
	}
	return names
}

// Null reports whether the node has no value, or the value null.
func (n Node) Null() bool {
	y := n.resolved()
	return y == nil || y.ShortTag() == "!!null"
}

// Mapping reports whether the node is a mapping.
func (n Node) Mapping() bool {
	y := n.resolved()
	return y != nil && y.Kind == yaml.MappingNode
}

// Sequence reports whether the node is a list.
func (n Node) Sequence() bool {
	y := n.resolved()
	return y != nil && y.Kind == yaml.SequenceNode
}

// Value returns the whole node in the types of JSON: maps with string keys, lists, strings, numbers, booleans
// and nil. It returns nil after a fault.
func (n Node) Value() any {
	y := n.visit()
	if y == nil {
		return nil
	}
	var v any
	err := y.Decode(&v)
	types, several := errors.AsType[*yaml.TypeError](err)
	switch {
	case err == nil:
		return stringKeys(v)
	case n.reader.Private:
		n.Fault(Syntax, "is not understood; a key is there twice, or a tag does not fit its value")
	case several:
		for _, text := range types.Errors {
			n.reader.broken(n, "is not understood: ", text)
		}
	default:
		n.reader.broken(n, "is not understood: ", err.Error())
	}
	return nil
}

func stringKeys(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key := range v {
			v[key] = stringKeys(v[key])
		}
	case map[any]any:
		m := make(map[string]any, len(v))
		for key := range v {
			m[fmt.Sprint(key)] = stringKeys(v[key])
		}
		return m
	case []any:
		for i := range v {
			v[i] = stringKeys(v[i])
		}
	}
	return v
}

// Expected adds the fault that the node has the wrong type; write names the right one. It adds none for a
// Node without a value, such as a result of Field.
func (n Node) Expected(write string) {
	y := n.resolved()
	if y == nil {
		return
	}
	if write == "a string" && slices.Contains([]string{"!!int", "!!float", "!!bool"}, y.ShortTag()) {
		write += ", in quotes"
	}
	n.Fault(Syntax, "%s; write %s", n.Is(), write)
}

// Is says what the node is, such as: is the number 7.
func (n Node) Is() string {
	y := n.resolved()
	if y == nil {
		return "is empty"
	}
	return "is " + n.reader.describe(y)
}

func (r *Reader) describe(y *yaml.Node) string {
	switch y.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	tag := y.ShortTag()
	kind, known := map[string]string{"!!null": "empty", "!!int": "number", "!!float": "number", "!!bool": "boolean", "!!str": "string"}[tag]
	switch {
	case tag == "!!null":
		return kind
	case r.Private && known:
		return "a " + kind
	case r.Private:
		return "a value of another kind"
	case !known || tag == "!!str":
		return strconv.Quote(y.Value)
	}
	return "the " + kind + " " + y.Value
}
