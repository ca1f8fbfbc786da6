package document

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The limits of a Reader. The YAML library itself refuses a nesting deeper than 10,000.
const (
	mostBytes  = 64 << 20
	mostVisits = 1 << 18 // of nodes; each node of the documents adds ten
	mostMerges = 100     // keys << in one another
)

// Reader collects the faults of the documents that it reads, so that one run reports all of them. Only a fault of
// the YAML syntax ends the reading of a file. The zero Reader is ready to use. It is not safe for concurrent use.
type Reader struct {
	File    string // the name in faults
	First   int    // the number of a list's first item in paths
	Private bool   // faults do not show values: they may be secrets

	Faults   Faults
	Warnings Faults

	// visits is the number of visits that are left. Aliases of aliases make a small document huge. Without
	// aliases, reading each node a few times does not reach the limit.
	visits  int
	bounded bool

	content []byte   // of the present file
	lines   []string // of content, once a fault asks for them
}

// All returns the documents of content that are not empty. It stops at the first that is no YAML, and adds a
// fault. Content that is too large or no text is a fault, too.
func (r *Reader) All(content []byte) []Node {
	if len(content) > mostBytes {
		r.Whole(Syntax, "has %d MiB; the most is %d", len(content)>>20, mostBytes>>20)
		return nil
	}
	content, err := Text(content)
	if faults, is := errors.AsType[Faults](err); is {
		r.fault(faults[0].Line, faults[0].Column, "", faults[0].Kind, "%s", faults[0].Message)
		return nil
	}
	r.content, r.lines = content, nil
	if trimmed := bytes.TrimSpace(content); len(trimmed) > 0 && trimmed[0] == '{' {
		// JSON may be indented with tabs, which YAML refuses; in its strings a tab is \t.
		content = bytes.ReplaceAll(content, []byte{'\t'}, []byte{' '})
	}
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	var all []Node
	for {
		var doc yaml.Node
		err := decoder.Decode(&doc)
		switch {
		case errors.Is(err, io.EOF):
			return all
		case err != nil:
			text := strings.TrimPrefix(err.Error(), "yaml: ")
			if r.strange(text) {
				return all
			}
			if line := locate(content, text); line > 0 {
				text = fmt.Sprintf("line %d: %s", line, yamlLine.ReplaceAllString(text, ""))
			}
			if r.Private {
				text = unquoted(text)
			}
			r.broken(Node{reader: r}, "is no YAML: ", text)
			return all
		case len(doc.Content) == 1 && doc.Content[0].ShortTag() != "!!null":
			all = append(all, r.root(doc.Content[0]))
		}
	}
}

// One returns the only document of content. An empty file is a fault that tells what to write; a second
// document is a fault, too. It returns false if there is no document that can be read.
func (r *Reader) One(content []byte, write string) (Node, bool) {
	before := len(r.Faults)
	all := r.All(content)
	switch {
	case len(r.Faults) > before:
		return Node{}, false
	case len(all) == 0:
		r.Whole(Missing, "the file is empty; %s", write)
		return Node{}, false
	case len(all) > 1:
		all[1].Fault(Duplicate, "a second YAML document begins here; keep one")
	}
	return all[0], true
}

// Empty returns an empty mapping as a document.
func (r *Reader) Empty() Node { return r.root(&yaml.Node{Kind: yaml.MappingNode}) }

func (r *Reader) root(n *yaml.Node) Node {
	if !r.bounded {
		r.visits, r.bounded = mostVisits, true
	}
	r.visits += 10 * prepare(n)
	return Node{reader: r, yaml: n, Line: n.Line, Column: n.Column}
}

// prepare returns the number of nodes without following aliases. It makes timestamps strings, since JSON has
// no such type.
func prepare(n *yaml.Node) int {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!timestamp" {
		n.Tag = "!!str"
	}
	count := 1
	for _, below := range n.Content {
		count += prepare(below)
	}
	return count
}

// Whole adds a fault of the whole file.
func (r *Reader) Whole(kind Kind, format string, args ...any) {
	r.fault(0, 0, "", kind, format, args...)
}

func (r *Reader) fault(line, column int, path string, kind Kind, format string, args ...any) {
	r.Faults = append(r.Faults, r.at(line, column, path, kind, format, args...))
}

func (r *Reader) at(line, column int, path string, kind Kind, format string, args ...any) Fault {
	return Fault{File: r.File, Line: line, Column: column, Path: path, Kind: kind, Message: fmt.Sprintf(format, args...)}
}

var yamlLine = regexp.MustCompile(`^line (\d+): `)

// wordless matches errors of the YAML library that have no words of the document.
var wordless = regexp.MustCompile(`^(did not find|could not find|found|mapping|block|exceeded) `)

// unquoted returns an error of the YAML library without words of the document, which may be secret.
func unquoted(text string) string {
	line := yamlLine.FindString(text)
	switch rest := text[len(line):]; {
	case strings.HasPrefix(rest, "unknown anchor "): // and its name
		return line + "an alias has no anchor; put a value that begins with * in quotes"
	case !wordless.MatchString(rest):
		return line + "it is not understood"
	}
	return text
}

// broken adds an error of the YAML library as a fault. A line in text takes the place of n's.
func (r *Reader) broken(n Node, before, text string) {
	text = strings.TrimPrefix(text, "yaml: ")
	line, column := n.Line, n.Column
	if found := yamlLine.FindStringSubmatch(text); found != nil {
		line, _ = strconv.Atoi(found[1])
		text, column = text[len(found[0]):], 0
	}
	r.fault(line, column, n.Path, Syntax, "%s%s", before, text)
}
