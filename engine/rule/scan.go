package rule

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/hap-worker/hap-worker/engine/spelling"
)

// space is the white space that may stand between tokens.
const space = " \t\r\n\f"

// maxName is the maximum length of a name in bytes, that of a Kubernetes label value: regions become part of one.
const maxName = 63

type tokenKind uint8

const (
	tokenEnd tokenKind = iota
	tokenName
	tokenOpen
	tokenClose
	tokenComma
	tokenEqual
	tokenStar
	tokenArrow
	tokenColon // in a member of the older lists; no rule has one
	tokenBad   // a character that neither a rule nor a member has
)

type token struct {
	kind   tokenKind
	text   string
	offset int // of its first byte
}

// String returns the token as messages show it.
func (t token) String() string {
	if t.kind == tokenEnd {
		return "the end of the rule"
	}
	if t.kind == tokenBad {
		if l, foreign := spelling.Foreign(t.text); foreign {
			return fmt.Sprintf("%q (%s)", t.text, l)
		}
	}
	return fmt.Sprintf("%q", t.text)
}

// flaw returns the first condition that a name token breaks, worded to follow "a name ", or "" if it breaks none.
func (t token) flaw() string {
	switch last := len(t.text) - 1; {
	case !alphanumeric(t.text[0]) || !alphanumeric(t.text[last]):
		return "that begins and ends with a letter or digit"
	case len(t.text) > maxName:
		return fmt.Sprintf("of at most %d characters", maxName)
	}
	return ""
}

type scanner struct {
	text   string // without trailing white space, so that it ends with the last token
	offset int
}

func newScanner(text string) *scanner {
	return &scanner{text: strings.TrimRight(text, space)}
}

func (s *scanner) next() token {
	for s.offset < len(s.text) && strings.IndexByte(space, s.text[s.offset]) >= 0 {
		s.offset++
	}
	kind, size := classify(s.text[s.offset:])
	t := token{kind: kind, text: s.text[s.offset : s.offset+size], offset: s.offset}
	s.offset += size
	return t
}

// classify returns the kind of the token with which rest begins, and its length in bytes.
func classify(rest string) (tokenKind, int) {
	switch {
	case rest == "":
		return tokenEnd, 0
	case strings.HasPrefix(rest, "->"):
		return tokenArrow, 2
	}
	if i := strings.IndexByte("(),=*:", rest[0]); i >= 0 {
		return [...]tokenKind{tokenOpen, tokenClose, tokenComma, tokenEqual, tokenStar, tokenColon}[i], 1
	}
	if n := nameLength(rest); n > 0 {
		return tokenName, n
	}
	_, size := utf8.DecodeRuneInString(rest)
	return tokenBad, size
}

// nameLength returns the length of the name with which rest begins. The name ends before an arrow: "aws->EU"
// begins with the name aws.
func nameLength(rest string) int {
	for i := range len(rest) {
		if !nameByte(rest[i]) || strings.HasPrefix(rest[i:], "->") {
			return i
		}
	}
	return len(rest)
}

func alphanumeric(c byte) bool { return class[c] == letterOrDigit }

// nameByte reports whether c may stand inside a name.
func nameByte(c byte) bool { return class[c] != 0 }

const (
	letterOrDigit = iota + 1
	punctuation
)

// class has the role of each byte in a name, 0 for a byte that no name contains.
var class = func() (table [256]uint8) {
	for _, c := range []byte("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") {
		table[c] = letterOrDigit
	}
	for _, c := range []byte("-_.") {
		table[c] = punctuation
	}
	return table
}()

// column returns the column of a byte offset, from 1. It counts characters, as editors do; a byte that is no
// UTF-8 counts as one.
func column(text string, offset int) int {
	return utf8.RuneCountInString(text[:offset]) + 1
}
