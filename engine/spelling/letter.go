package spelling

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
	"golang.org/x/text/unicode/runenames"
)

// Letter is a character that is not allowed in a name, with its position.
type Letter struct {
	Rune   rune // utf8.RuneError also for a byte that is no UTF-8
	Column int  // in the text, in characters, counted from 1
}

// String returns the Unicode name, the code point and, where it is clear, the replacement:
// `CYRILLIC SMALL LETTER A, U+0430; write "a"`.
func (l Letter) String() string {
	if l.Rune == utf8.RuneError {
		return "a byte that is no UTF-8, or U+FFFD"
	}
	name := strings.Trim(runenames.Name(l.Rune), "<>") // in brackets: the name of a range
	if unicode.IsControl(l.Rune) {
		name = "a control character"
	}
	name = fmt.Sprintf("%s, U+%04X", name, l.Rune)
	switch meant := meant(l.Rune); {
	case meant == " ":
		return name + "; write a space, or leave it out"
	case meant != "":
		return fmt.Sprintf("%s; write %q", name, meant)
	case Invisible(l.Rune):
		return name + "; leave it out"
	}
	return name
}

// Foreign finds the first character above ~, the last one that ASCII can print. It accepts control characters below
// the space. No name of a plan, a region or a tenant has a foreign character, and no path of a policy.
func Foreign(text string) (Letter, bool) {
	column := 0
	for _, r := range text {
		column++
		if r > '~' {
			return Letter{Rune: r, Column: column}, true
		}
	}
	return Letter{}, false
}

// Deceptive finds the first character that a reader of a name, which need not be ASCII, cannot see or
// mistakes for another one: an invisible character, white space beyond ASCII or, in a word with ASCII
// letters, a letter that looks like an ASCII one.
func Deceptive(text string) (Letter, bool) {
	runes := []rune(text)
	latin, end := false, 0 // of the present word
	for i, r := range runes {
		if i >= end {
			latin = false
			for end = i; end < len(runes) && unicode.IsLetter(runes[end]); end++ {
				latin = latin || runes[end] <= unicode.MaxASCII
			}
		}
		if r > unicode.MaxASCII && (Invisible(r) || unicode.IsSpace(r) || latin && alike(r) != "") {
			return Letter{Rune: r, Column: i + 1}, true
		}
	}
	return Letter{}, false
}

// Note returns a phrase to append to a message about a name that must be ASCII: it says which other character
// the name has. It is "" for an ASCII name.
func Note(name string) string {
	l, found := Foreign(name)
	if !found {
		return ""
	}
	return fmt.Sprintf("; its character %d is %s", l.Column, l)
}

// Fold replaces each character by the ASCII text that was probably meant with it, if that is clear, and removes
// invisible characters and surrounding white space.
func Fold(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch meant := meant(r); {
		case meant != "":
			b.WriteString(meant)
		case !Invisible(r):
			b.WriteRune(r)
		}
	}
	return strings.TrimSpace(b.String())
}

// meant returns the ASCII text that was probably meant with a character, "" if that is not clear.
func meant(r rune) string {
	if alike := alike(r); alike != "" || r <= unicode.MaxASCII {
		return alike
	}
	if unicode.IsSpace(r) {
		return " "
	}
	plain := norm.NFKC.String(string(r))
	if _, foreign := Foreign(plain); foreign {
		return ""
	}
	return plain
}

// Invisible reports whether the character is invisible: format characters, such as zero-width space, soft hyphen
// and the marks of direction, and letters and selectors without a shape.
func Invisible(r rune) bool {
	return unicode.In(r, unicode.Cf, unicode.Variation_Selector) || strings.ContainsRune("\u034f\u115f\u1160\u3164\uffa0", r)
}

// alike returns the ASCII text that r looks like in most typefaces, "" for none. It knows full-width characters,
// mathematical letters and digits, and the characters of similar.
func alike(r rune) string {
	if r >= '\uff01' && r <= '\uff5e' || r >= '\U0001d400' && r <= '\U0001d7ff' {
		if plain := norm.NFKC.String(string(r)); len(plain) == 1 {
			return plain
		}
	}
	for _, s := range similar {
		if strings.ContainsRune(s.those, r) {
			return s.to
		}
	}
	return ""
}

// similar has letters, most of them Cyrillic, Greek or Armenian, and signs that look like ASCII signs, such as those
// that word processors put in their place.
var similar = []struct{ to, those string }{
	{"a", "\u0430"}, {"c", "\u0441"}, {"d", "\u0501"}, {"e", "\u0435"}, {"h", "\u04bb"}, {"i", "\u0456\u0131"}, {"j", "\u0458"},
	{"o", "\u043e\u03bf\u0585"}, {"p", "\u0440\u03c1"}, {"q", "\u051b"}, {"s", "\u0455"}, {"v", "\u0475\u03bd"}, {"w", "\u051d"},
	{"x", "\u0445"}, {"y", "\u0443"},
	{"A", "\u0410\u0391"}, {"B", "\u0412\u0392"}, {"C", "\u0421"}, {"E", "\u0415\u0395"}, {"H", "\u041d\u0397"}, {"I", "\u0406\u0399"},
	{"J", "\u0408"}, {"K", "\u041a\u039a\u212a"}, {"M", "\u041c\u039c"}, {"N", "\u039d"}, {"O", "\u041e\u039f"}, {"P", "\u0420\u03a1"},
	{"Q", "\u051a"}, {"S", "\u0405"}, {"T", "\u0422\u03a4"}, {"W", "\u051c"}, {"X", "\u0425\u03a7"}, {"Y", "\u0423\u03a5"}, {"Z", "\u0396"},
	{"-", "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"}, {"->", "\u2192\u21d2\u27f6"}, {"*", "\u2217\u22c6"}, {"=", "\ua78a"},
	{`"`, "\u201c\u201d\u201e\u00ab\u00bb"}, {"'", "\u2018\u2019\u2032"}, {",", "\u201a\u3001"}, {":", "\u2236\u0589"},
}
