package network

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hap-worker/hap-worker/engine/spelling"
)

// reader takes values out of a document and keeps what is wrong with them.
type reader struct {
	faults   Faults
	warnings []Fault
	values   int // of the document, so far
}

// fields are those of an object that have a value; null is none.
type fields map[string]node

func (r *reader) fault(n node, kind Kind, text string, args ...any) {
	r.faults = append(r.faults, Fault{Path: n.path, Kind: kind, Message: fmt.Sprintf(text, args...)})
}

func (r *reader) warn(n node, kind Kind, text string, args ...any) {
	r.warnings = append(r.warnings, Fault{Path: n.path, Kind: kind, Message: fmt.Sprintf(text, args...)})
}

// object gives the fields of an object, which has no others than the known ones.
func (r *reader) object(n node, known ...string) fields {
	all := r.mapping(n)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if slices.Contains(known, name) {
			continue
		}
		hint := "the fields are " + strings.Join(known, ", ")
		if meant := spelling.Closest(name, known); meant != "" {
			hint = "did you mean " + meant + "?"
		}
		r.fault(n.field(name), Syntax, "there is no such field; %s", hint)
	}
	return all
}

// mapping gives the fields of an object, whatever their names are.
func (r *reader) mapping(n node) fields {
	m, ok := n.value.(map[string]any)
	if !ok {
		r.wrongType(n, "an object")
		return nil
	}
	all := fields{}
	for name, value := range m {
		if value != nil {
			all[name] = n.field(name)
		}
	}
	return all
}

// list gives the items of a list.
func (r *reader) list(n node) []node {
	values, ok := n.value.([]any)
	if !ok {
		r.wrongType(n, "a list")
		return nil
	}
	items := make([]node, len(values))
	for i := range values {
		items[i] = n.item(i)
	}
	return items
}

// texts gives the items of a list of texts that are texts.
func (r *reader) texts(n node) []string {
	all := []string{}
	for _, item := range r.list(n) {
		if text, ok := r.text(item); ok {
			all = append(all, text)
		}
	}
	return all
}

func (r *reader) text(n node) (string, bool) {
	text, ok := n.value.(string)
	if !ok {
		r.wrongType(n, "a text")
	}
	return text, ok
}

// optional is a text that may be left out.
func (r *reader) optional(all fields, name string) string {
	n, ok := all[name]
	if !ok {
		return ""
	}
	text, _ := r.text(n)
	return text
}

func (r *reader) whole(n node) (int, bool) {
	number, ok := n.value.(int)
	if !ok {
		r.wrongType(n, "a whole number")
	}
	return number, ok
}

func (r *reader) wrongType(n node, want string) {
	var is string
	switch v := n.value.(type) {
	case nil:
		is = "nothing"
	case map[string]any:
		is = "an object"
	case []any:
		is = "a list"
	case string:
		is = fmt.Sprintf("the text %q", v)
	default: // true, 7
		is = fmt.Sprintf("%v without quotes", v)
		if want == "a text" {
			want = "a text, in quotes"
		}
	}
	r.fault(n, Syntax, "this is %s; write %s", is, want)
}
