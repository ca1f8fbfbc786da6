package streams

import "strings"

// OneLine makes text safe for a header: it replaces ASCII control characters by spaces, since a line break would
// begin another header, and trims spaces. It cuts a text that is longer than most bytes, and then appends an ellipsis.
func OneLine(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "�"))
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return strings.TrimSpace(text)
}
