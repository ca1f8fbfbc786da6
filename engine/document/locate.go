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

// mostLocated bounds what is read again, some twenty times, for the line of a fault.
const mostLocated = 4 << 20 // bytes

// misplaced are the errors whose line the YAML library takes from the beginning of the
// mapping or list around the fault, or does not know.
var misplaced = []string{
	"did not find expected key", "did not find expected '-' indicator", "did not find expected node content",
	"did not find expected <document start>", "did not find expected ',' or ", "unknown anchor ",
}

// locate returns the line of what the YAML library refuses with the text, counted from 1; 0
// where the library's own line is right, or where finding another would take long. The
// documents are valid up to the line before, but for the brackets that are open there.
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

// open reports whether the lines may go on inside of brackets: the YAML library then comes
// to an alias that follows.
func open(lines [][]byte) bool {
	const unknown = "unknown anchor 'behind' referenced"
	for _, next := range []string{"\n*behind", "\n, *behind"} {
		if found, _ := refusal(append(slices.Clip(lines), []byte(next))); found == unknown {
			return true
		}
	}
	return false
}

// refusal returns what the YAML library says of the lines, without its own line, and how many
// of the lines it has read by then.
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
	begun int    // how many lines it has returned something of
	rest  []byte // of the last one
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
