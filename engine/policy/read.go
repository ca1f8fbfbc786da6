package policy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/hap-worker/hap-worker/engine/spelling"
)

// reader goes through the nodes of YAML documents and gathers every fault, so
// that one reading tells all of them.
type reader struct {
	file   string
	faults Faults

	// left is how many nodes may still be visited. Aliases of aliases make a small
	// document endless; one without them never reaches the bound.
	left int

	// private keeps what the document says out of the faults: it holds secrets.
	private bool
}

func (r *reader) fault(line int, at string, kind Kind, format string, args ...any) {
	r.faults = append(r.faults, Fault{File: r.file, Line: line, Path: at, Kind: kind, Message: fmt.Sprintf(format, args...)})
}

var yamlLine = regexp.MustCompile(`^line (\d+): `)

// broken is what the YAML library says, with its line where ours stands.
func (r *reader) broken(line int, at, before, text string) {
	text = strings.TrimPrefix(text, "yaml: ")
	if found := yamlLine.FindStringSubmatch(text); found != nil {
		line, _ = strconv.Atoi(found[1])
		text = text[len(found[0]):]
	}
	r.fault(line, at, Syntax, "%s%s", before, text)
}

// documents are the contents of all YAML documents, up to the first that is no
// YAML. Empty ones are left out.
func (r *reader) documents(content []byte) []*yaml.Node {
	if trimmed := bytes.TrimSpace(content); len(trimmed) > 0 && trimmed[0] == '{' {
		// JSON may be indented with tabs, which YAML does not take; inside its strings
		// a tab is written \t.
		content = bytes.ReplaceAll(content, []byte{'\t'}, []byte{' '})
	}
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	var all []*yaml.Node
	for {
		var doc yaml.Node
		err := decoder.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			r.broken(0, "", "is no YAML: ", err.Error())
			return all
		}
		if len(doc.Content) == 1 && doc.Content[0].Tag != "!!null" {
			untimed(doc.Content[0])
			all = append(all, doc.Content[0])
			r.left += 10*size(doc.Content[0]) + 1000
		}
	}
}

// document is the content of the only document; nil, with a fault, where there
// is none or another.
func (r *reader) document(content []byte, what string) *yaml.Node {
	all := r.documents(content)
	switch {
	case len(r.faults) > 0:
		return nil
	case len(all) == 0:
		r.fault(0, "", Missing, "the file is empty; write %s", what)
		return nil
	case len(all) > 1:
		r.fault(all[1].Line, "", Duplicate, "a second YAML document begins here; keep one")
	}
	return all[0]
}

// size is the number of nodes, aliases not followed.
func size(n *yaml.Node) int {
	count := 1
	for _, below := range n.Content {
		count += size(below)
	}
	return count
}

// follow is the node that an alias stands for; nil where too many were followed.
func (r *reader) follow(n *yaml.Node, at string) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if r.left < 0 {
		return nil
	}
	if r.left -= 1 + len(n.Content); r.left < 0 {
		r.fault(n.Line, at, Syntax, "aliases make the document too large; write less of it by alias")
		return nil
	}
	return n
}

// entry is a key of a mapping with its value.
type entry struct {
	key   string
	line  int
	value *yaml.Node
}

// mapping gives the entries of a mapping in their order, each key once; its keys
// are names that the user gave.
func (r *reader) mapping(n *yaml.Node, at string) ([]entry, bool) {
	return r.entries(n, at, item[string])
}

// entries is mapping; path makes the path of a key.
func (r *reader) entries(n *yaml.Node, at string, path func(at, key string) string) ([]entry, bool) {
	if n = r.follow(n, at); n == nil {
		return nil, false
	}
	if n.Kind != yaml.MappingNode {
		r.fault(n.Line, at, Syntax, "is %s; write key: value pairs, or {} for none", r.describe(n))
		return nil, false
	}
	var entries []entry
	seen := make(map[string]int, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind != yaml.ScalarNode {
			r.fault(key.Line, at, Syntax, "a key is %s; write a name", r.describe(key))
			continue
		}
		if first, twice := seen[key.Value]; twice {
			r.fault(key.Line, path(at, key.Value), Duplicate, "is there twice, first on line %d; keep one", first)
			continue
		}
		seen[key.Value] = key.Line
		entries = append(entries, entry{key: key.Value, line: key.Line, value: n.Content[i+1]})
	}
	return entries, true
}

// object is a mapping whose keys are fields.
type object struct {
	line   int
	at     string
	fields map[string]*yaml.Node
}

// object reads a mapping; a key that is not known is a fault unless known is empty.
func (r *reader) object(n *yaml.Node, at string, known ...string) (object, bool) {
	entries, ok := r.entries(n, at, below)
	if !ok {
		return object{}, false
	}
	o := object{line: n.Line, at: at, fields: make(map[string]*yaml.Node, len(entries))}
	for _, e := range entries {
		if len(known) > 0 && !slices.Contains(known, e.key) {
			r.fault(e.line, below(at, e.key), Unknown, "is no field here; %s", meant(e.key, known))
			continue
		}
		o.fields[e.key] = e.value
	}
	return o, true
}

// meant is the advice for a word that is not known.
func meant(word string, known []string) string {
	if closest := spelling.Closest(word, known); closest != "" {
		return fmt.Sprintf("did you mean %s?", closest)
	}
	return "there are " + strings.Join(known, ", ")
}

// list gives the items of a list.
func (r *reader) list(n *yaml.Node, at string) ([]*yaml.Node, bool) {
	if n = r.follow(n, at); n == nil {
		return nil, false
	}
	if n.Kind != yaml.SequenceNode {
		r.fault(n.Line, at, Syntax, "is %s; write a list, or [] for an empty one", r.describe(n))
		return nil, false
	}
	return n.Content, true
}

// text gives a string that is not empty.
func (r *reader) text(n *yaml.Node, at string) string {
	if n = r.follow(n, at); n == nil {
		return ""
	}
	switch {
	case n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str":
		r.fault(n.Line, at, Syntax, "is %s; write a string", r.describe(n))
		return ""
	case n.Value == "":
		r.fault(n.Line, at, Syntax, "is an empty string; write a value")
	}
	return n.Value
}

// need is text of a field that must be there.
func (r *reader) need(o object, field, example string) (string, bool) {
	n, ok := o.fields[field]
	if !ok {
		r.fault(o.line, below(o.at, field), Missing, "is missing; write %s", example)
		return "", false
	}
	text := r.text(n, below(o.at, field))
	return text, text != ""
}

// path reads a field that must be a path.
func (r *reader) path(o object, field, example string) string {
	path, ok := r.need(o, field, example)
	if ok && !pathForm.MatchString(path) {
		r.fault(o.fields[field].Line, below(o.at, field), Syntax, "%q is no path; write it in full, such as %s", path, example)
	}
	return path
}

// revision reads the field revision; absent is "" and a fault only where required.
func (r *reader) revision(o object, required bool) string {
	n, ok := o.fields["revision"]
	if !ok {
		if required {
			r.fault(o.line, below(o.at, "revision"), Missing, "is missing; write one of the form 0.1.0")
		}
		return ""
	}
	at := below(o.at, "revision")
	if n = r.follow(n, at); n == nil {
		return ""
	}
	if n.Kind != yaml.ScalarNode || !revisionForm.MatchString(n.Value) {
		r.fault(n.Line, at, Syntax, "is %s; write a revision of three numbers, such as 0.1.0", r.describe(n))
		return ""
	}
	return n.Value
}

// describe says what is there in place of what was expected.
func (r *reader) describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	switch tag := n.ShortTag(); {
	case tag == "!!null":
		return "empty"
	case r.private:
		return "a value of another kind"
	}
	switch n.ShortTag() {
	case "!!int", "!!float":
		return "the number " + n.Value
	case "!!bool":
		return "the boolean " + n.Value
	}
	return strconv.Quote(n.Value)
}

// below is the path of a field.
func below(at, field string) string {
	if at == "" {
		return plain(field)
	}
	return at + "." + plain(field)
}

// item is the path of an item of a list, or of an entry whose key is no field.
func item[K int | string](at string, key K) string { return at + "[" + plain(fmt.Sprint(key)) + "]" }

// plain keeps a key on one line.
func plain(key string) string {
	if key == "" || strings.ContainsFunc(key, func(c rune) bool { return c == ' ' || !strconv.IsPrint(c) }) {
		return strconv.Quote(key)
	}
	return key
}
