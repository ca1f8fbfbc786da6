package document

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"sort"
	"strings"

	"go.yaml.in/yaml/v3"
)

// mostLocated bounds the content in which locate searches: each step of its binary search for a line parses the
// content anew.
const mostLocated = 4 << 20 // bytes

// misplaced lists the errors for which the YAML library reports the first line of the mapping or list around
// the fault, or no line.
var misplaced = []string{
	"did not find expected key", "did not find expected '-' indicator", "did not find expected node content",
	"did not find expected <document start>", "did not find expected ',' or ", "unknown anchor ",
}

// locate returns the line, counted from 1, that causes the YAML library's error text: the last line of the
// shortest beginning of content for which the library returns the same error. A beginning that fails only
// because a bracket is still open does not count. locate returns 0 for an error that misplaced does not
// list, whose line is right, and for content that is too large to search.
func locate(content []byte, text string) int {
	text = yamlLine.ReplaceAllString(text, "")
	known := false
	for _, prefix := range misplaced {
		known = known || strings.HasPrefix(text, prefix)
	}
	if !known || len(content) > mostLocated {
		return 0
	}
	lines := bytes.SplitAfter(bytes.TrimSuffix(content, []byte("\n")), []byte("\n"))
	_, read := refusal(lines)
	bracketed := strings.HasPrefix(text, "did not find expected ','")
	before := sort.Search(read-1, func(n int) bool {
		found, _ := refusal(lines[:n+1])
		return found == text && !(bracketed && open(lines[:n+1]))
	})
	return before + 1
}

// open reports whether the lines end inside brackets. It appends an unknown alias: the YAML library complains
// about the alias only if the lines may continue.
func open(lines [][]byte) bool {
	const unknown = "unknown anchor 'behind' referenced"
	for _, next := range []string{"\n*behind", "\n, *behind"} {
		if found, _ := refusal(append(slices.Clip(lines), []byte(next))); found == unknown {
			return true
		}
	}
	return false
}

// refusal returns the YAML library's error for the lines, without its line number, and how many lines it read
// up to then. The text is "" for valid lines.
func refusal(lines [][]byte) (text string, read int) {
	source := &lineByLine{lines: lines}
	decoder := yaml.NewDecoder(source)
	for {
		var doc yaml.Node
		err := decoder.Decode(&doc)
		if err != nil {
			if !errors.Is(err, io.EOF) {
				text = yamlLine.ReplaceAllString(strings.TrimPrefix(err.Error(), "yaml: "), "")
			}
			return text, source.begun
		}
	}
}

// lineByLine is a reader that returns at most one line at a time.
type lineByLine struct {
	lines [][]byte
	begun int    // how many lines were returned, at least in part
	rest  []byte // of the last one, not yet returned
}

func (l *lineByLine) Read(p []byte) (int, error) {
	if len(l.rest) == 0 {
		if l.begun == len(l.lines) {
			return 0, io.EOF
		}
		l.rest = l.lines[l.begun]
		l.begun++
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}
