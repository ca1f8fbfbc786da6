package cli

import (
	"testing"
)

// TestQuoteWord: a shell reads the quoted word as the original one.
func TestQuoteWord(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{
		"cap.interface.db:0.1.0": "cap.interface.db:0.1.0", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "$(x)": "'$(x)'",
	} {
		if got := QuoteWord(word); got != want {
			t.Errorf("%q: %s, want %s", word, got, want)
		}
	}
}
