package cli

import (
	"os"
	"testing"
)

// TestDevNullIsNoTerminal: a command that cron starts asks nothing.
func TestDevNullIsNoTerminal(t *testing.T) {
	t.Parallel()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	if Terminal(null) {
		t.Errorf("%s counts as a terminal", os.DevNull)
	}
}
