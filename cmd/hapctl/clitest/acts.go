package clitest

import (
	"unicode"
	"unicode/utf8"
)

// Acts returns the first character of text that a terminal could act upon (a control, format or private-use character
// or a separator of lines), or the first byte that is not UTF-8, whichever comes first. Line feeds and tabs are
// permitted. If there is none, is = false.
func Acts(text string) (found string, is bool) {
	for i, r := range text {
		_, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			return text[i : i+1], true
		case r == '\n' || r == '\t':
		case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Zl, unicode.Zp, unicode.Bidi_Control):
			return string(r), true
		}
	}
	return "", false
}
