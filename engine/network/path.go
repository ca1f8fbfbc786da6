package network

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/hap-worker/hap-worker/engine/spelling"
)

// PathError is a path that cannot be read.
type PathError struct {
	Path  string // as it was given
	Index int    // of the character at fault, in characters, counted from 0; the length of the path for its end
	Why   string
}

// Error names the character and its index.
func (e *PathError) Error() string {
	runes := []rune(e.Path)
	at := fmt.Sprintf("the end, index %d", e.Index)
	if e.Index < len(runes) {
		at = fmt.Sprintf("%q at index %d", runes[e.Index], e.Index)
	}
	return fmt.Sprintf("path %q: %s: %s", e.Path, at, e.Why)
}

// Pointer converts a path to a JSON pointer (RFC 6901). A path that begins with
// "/" is one already; any other is read like JSONPath: a.b, .a.b, a[0], a['b.c'],
// with a backslash before each of \ . [ ] " ' that belongs to a name. "" and "/"
// are the root, whose pointer is "". The error is a *PathError.
func Pointer(path string) (string, error) {
	if !utf8.ValidString(path) {
		return "", &PathError{Path: path, Index: invalidAt(path), Why: "this is no UTF-8"}
	}
	if l, found := spelling.Deceptive(path); found {
		return "", &PathError{Path: path, Index: l.Column - 1, Why: "this is " + l.String()}
	}
	if path == "" || path == "/" {
		return "", nil
	}
	if path[0] == '/' {
		return path, checkPointer(path)
	}
	p := pathParser{path: path, text: []rune(path)}
	return p.parse()
}

// invalidAt returns the index of the first character that is no UTF-8.
func invalidAt(path string) int {
	index := 0
	for rest := path; rest != ""; index++ {
		r, size := utf8.DecodeRuneInString(rest)
		if r == utf8.RuneError && size == 1 {
			break
		}
		rest = rest[size:]
	}
	return index
}

// checkPointer returns an error for a tilde that begins no escape: readers of JSON pointers refuse it.
func checkPointer(pointer string) error {
	text := []rune(pointer)
	for i, c := range text {
		if c == '~' && (i+1 == len(text) || text[i+1] != '0' && text[i+1] != '1') {
			return &PathError{Path: pointer, Index: i, Why: "in a JSON pointer ~ begins ~0 or ~1; write ~0 for the character itself"}
		}
	}
	return nil
}

// escaper writes a name as a token of a pointer.
var escaper = strings.NewReplacer("~", "~0", "/", "~1")

// pathParser reads a JSONPath-like path from left to right.
type pathParser struct {
	path    string
	text    []rune
	at      int
	pointer strings.Builder
}

// The messages about a character in the wrong place.
const (
	needName   = "a name is missing here"
	needEscape = "write a backslash before it where it belongs to the name"
	needClose  = "a bracket is open, ] is missing here"
)

func (p *pathParser) parse() (string, error) {
	if p.peek() == '$' && (len(p.text) == 1 || p.text[1] == '.' || p.text[1] == '[') {
		return "", p.fault("paths begin at the root without $; leave it out, or write ['$'] for a field of that name")
	}
	if p.peek() == '.' {
		p.at++
	}
	for first := true; first || p.at < len(p.text); first = false {
		if err := p.token(first); err != nil {
			return "", err
		}
	}
	return p.pointer.String(), nil
}

// token reads one name and the separator before it. Before the first name there is none, or the dot that
// parse has read.
func (p *pathParser) token(first bool) error {
	begin := p.at
	switch {
	case p.peek() == '[' && (!first || begin == 0):
		return p.bracket()
	case first:
	case p.peek() == '.':
		p.at++
	default:
		return p.fault("after ] only . or [ or the end may follow")
	}
	name, err := p.name(func(c rune) bool { return c == '.' || c == '[' })
	if err == nil && name == "" {
		err = p.fault(needName)
	}
	p.put(name)
	return err
}

// bracket reads [name], ['name'] or ["name"].
func (p *pathParser) bracket() error {
	p.at++
	quote := p.peek()
	if quote != '\'' && quote != '"' {
		name, err := p.name(func(c rune) bool { return c == ']' })
		switch {
		case err != nil:
			return err
		case p.at == len(p.text):
			return p.fault(needClose)
		case name == "":
			return p.fault(needName)
		}
		p.at++
		p.put(name)
		return nil
	}
	p.at++
	name, err := p.quoted(quote)
	if err != nil {
		return err
	}
	if p.peek() != ']' {
		return p.fault(needClose)
	}
	p.at++
	p.put(name)
	return nil
}

// name reads up to the end of the text or a character that ends it.
func (p *pathParser) name(ends func(rune) bool) (string, error) {
	var name strings.Builder
	for p.at < len(p.text) && !ends(p.text[p.at]) {
		c := p.text[p.at]
		if c == '\\' {
			if err := p.escaped(&name); err != nil {
				return "", err
			}
			continue
		}
		if strings.ContainsRune(`.[]"'`, c) {
			return "", p.fault(needEscape)
		}
		name.WriteRune(c)
		p.at++
	}
	return name.String(), nil
}

// quoted reads a name up to the closing quote, and the quote. The name may be empty: JSON allows such fields.
func (p *pathParser) quoted(quote rune) (string, error) {
	var name strings.Builder
	for p.at < len(p.text) {
		switch c := p.text[p.at]; c {
		case quote:
			p.at++
			return name.String(), nil
		case '\\':
			if err := p.escaped(&name); err != nil {
				return "", err
			}
		default:
			name.WriteRune(c)
			p.at++
		}
	}
	return "", p.fault(fmt.Sprintf("a name in quotes is open, %c is missing here", quote))
}

// escaped reads a backslash and the character behind it.
func (p *pathParser) escaped(name *strings.Builder) error {
	p.at++
	c := p.peek()
	if c == 0 || !strings.ContainsRune(`\.[]"'`, c) {
		return p.fault(`a backslash escapes \ . [ ] " and ' only`)
	}
	name.WriteRune(c)
	p.at++
	return nil
}

func (p *pathParser) put(name string) {
	p.pointer.WriteByte('/')
	p.pointer.WriteString(escaper.Replace(name))
}

// peek returns the next character, 0 at the end.
func (p *pathParser) peek() rune {
	if p.at == len(p.text) {
		return 0
	}
	return p.text[p.at]
}

func (p *pathParser) fault(why string) error {
	return &PathError{Path: p.path, Index: p.at, Why: why}
}
