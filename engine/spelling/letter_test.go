package spelling_test

import (
	"testing"

	"github.com/hap-worker/hap-worker/engine/spelling"
)

func TestLetter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text, foreign, deceptive, fold string
		column                         int
	}{
		{"aws-eu_1.x y", "", "", "aws-eu_1.x y", 0},
		{"\u0430ws", `CYRILLIC SMALL LETTER A, U+0430; write "a"`, `CYRILLIC SMALL LETTER A, U+0430; write "a"`, "aws", 1},
		{"\u0430", `CYRILLIC SMALL LETTER A, U+0430; write "a"`, "", "a", 1},
		{"\u0441\u0435\u0442\u044c", `CYRILLIC SMALL LETTER ES, U+0441; write "c"`, "", "ce\u0442\u044c", 1},
		{"net \u0441\u0435\u0442\u044c", `CYRILLIC SMALL LETTER ES, U+0441; write "c"`, "", "net ce\u0442\u044c", 5},
		{"net \u0441et", `CYRILLIC SMALL LETTER ES, U+0441; write "c"`, `CYRILLIC SMALL LETTER ES, U+0441; write "c"`, "net cet", 5},
		{"gr\u00f6\u00dfe", "LATIN SMALL LETTER O WITH DIAERESIS, U+00F6", "", "gr\u00f6\u00dfe", 3},
		{"A\uff21", `FULLWIDTH LATIN CAPITAL LETTER A, U+FF21; write "A"`, `FULLWIDTH LATIN CAPITAL LETTER A, U+FF21; write "A"`, "AA", 2},
		{"a\U0001d41b", `MATHEMATICAL BOLD SMALL B, U+1D41B; write "b"`, `MATHEMATICAL BOLD SMALL B, U+1D41B; write "b"`, "ab", 2},
		{"m\u00b2", `SUPERSCRIPT TWO, U+00B2; write "2"`, "", "m2", 2},
		{"a\u00a0b", "NO-BREAK SPACE, U+00A0; write a space, or leave it out", "NO-BREAK SPACE, U+00A0; write a space, or leave it out", "a b", 2},
		{"\u2028", "LINE SEPARATOR, U+2028; write a space, or leave it out", "LINE SEPARATOR, U+2028; write a space, or leave it out", "", 1},
		{"ab\u200b", "ZERO WIDTH SPACE, U+200B; leave it out", "ZERO WIDTH SPACE, U+200B; leave it out", "ab", 3},
		{"a\ufeffb", "ZERO WIDTH NO-BREAK SPACE, U+FEFF; leave it out", "ZERO WIDTH NO-BREAK SPACE, U+FEFF; leave it out", "ab", 2},
		{"a\u00adb", "SOFT HYPHEN, U+00AD; leave it out", "SOFT HYPHEN, U+00AD; leave it out", "ab", 2},
		{"a\u202eb", "RIGHT-TO-LEFT OVERRIDE, U+202E; leave it out", "RIGHT-TO-LEFT OVERRIDE, U+202E; leave it out", "ab", 2},
		{"a\ufe0f", "VARIATION SELECTOR-16, U+FE0F; leave it out", "VARIATION SELECTOR-16, U+FE0F; leave it out", "a", 2},
		{"a\u2013b", `EN DASH, U+2013; write "-"`, "", "a-b", 2},
		{"a\u2192b", `RIGHTWARDS ARROW, U+2192; write "->"`, "", "a->b", 2},
		{"a\u0001\n", "", "", "a\u0001", 0},
		{"a\u0085", "a control character, U+0085; write a space, or leave it out", "a control character, U+0085; write a space, or leave it out", "a", 2},
		{"a\u007f", "a control character, U+007F", "", "a\u007f", 2},
		{"a\u4e00", "CJK Ideograph, U+4E00", "", "a\u4e00", 2},
		{"a\xff", "a byte that is no UTF-8, or U+FFFD", "", "a\ufffd", 2},
	} {
		foreign, is := spelling.Foreign(c.text)
		if is != (c.foreign != "") || is && (foreign.String() != c.foreign || foreign.Column != c.column) {
			t.Errorf("Foreign(%q) is %v in column %d, %v; want %s in column %d", c.text, foreign, foreign.Column, is, c.foreign, c.column)
		}
		deceptive, is := spelling.Deceptive(c.text)
		if is != (c.deceptive != "") || is && (deceptive.String() != c.deceptive || deceptive.Column != c.column) {
			t.Errorf("Deceptive(%q) is %v in column %d, %v; want %q", c.text, deceptive, deceptive.Column, is, c.deceptive)
		}
		if fold := spelling.Fold(c.text); fold != c.fold {
			t.Errorf("Fold(%q) is %q, want %q", c.text, fold, c.fold)
		}
	}
	if note := spelling.Note("ab\u200b"); note != "; its character 3 is ZERO WIDTH SPACE, U+200B; leave it out" {
		t.Errorf("the note is %q", note)
	}
	if note := spelling.Note("ab"); note != "" {
		t.Errorf("the note of a plain name is %q", note)
	}
}
