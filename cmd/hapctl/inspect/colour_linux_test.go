package inspect

import (
	"strings"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/cmd/hapctl/clitest"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
)

// TestColoursOnATerminal: Print writes colours to a terminal, but not if NO_COLOR is set to any value, or if
// the terminal supports no colours. Coloured output has no other way to standard output.
func TestColoursOnATerminal(t *testing.T) {
	for _, c := range []struct {
		name, noColour, term string
		colours, moves       bool
	}{
		{"somebody looks", "", "xterm", true, true},
		{"who wants no colours", "1", "xterm", false, true},
		{"who wants no colours, with another value", "no", "xterm", false, true},
		{"a terminal that can do neither", "", "dumb", false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("NO_COLOR", c.noColour)
			t.Setenv("TERM", c.term)
			got := watched(t)
			if colours := strings.Contains(got, string(cli.Red)) && strings.Contains(got, string(cli.Yellow)); colours != c.colours {
				t.Errorf("colours: %v, want %v: %q", colours, c.colours, got)
			}
			if moves := strings.Contains(got, "\x1b[H\x1b[2J"); moves != c.moves {
				t.Errorf("drawn anew: %v, want %v: %q", moves, c.moves, got)
			}
			if !c.colours && !c.moves && strings.ContainsRune(got, '\x1b') {
				t.Errorf("it gets %q", got)
			}
		})
	}
}

// watched returns the output of pools --watch on a terminal.
func watched(t *testing.T) string {
	t.Helper()
	screen, tty := clitest.OpenTerminal(t)
	w := watching{on: true, every: time.Second}
	s := &cli.Shell{Stdout: cli.Stream{To: tty}, Format: cli.FormatTable}
	if err := w.draw(s, colouredPools(), true); err != nil {
		t.Fatal(err)
	}
	if _, err := tty.WriteString("the end"); err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	part := make([]byte, 4096)
	for !strings.HasSuffix(got.String(), "the end") {
		n, err := screen.Read(part)
		if err != nil {
			t.Fatalf("%v after %q", err, got.String())
		}
		got.Write(part[:n])
	}
	return got.String()
}
