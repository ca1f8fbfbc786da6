package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
)

// TestAskEndsWithItsContext: while a terminal has no answer, ^C and --timeout end the question.
func TestAskEndsWithItsContext(t *testing.T) {
	t.Parallel()
	in, typed := io.Pipe()
	defer func() { _ = typed.Close() }() // ends the reads
	stopped, stop := context.WithCancel(t.Context())
	defer stop()
	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	for _, c := range []struct {
		ctx  context.Context
		want error
		exit int
	}{{stopped, context.Canceled, ExitFailure}, {late, context.DeadlineExceeded, ExitTimeout}} {
		said := make(chan error)
		go func() { said <- (&Shell{Stdin: in, Stderr: Stream{io.Discard}}).Ask(c.ctx, "drop it") }()
		stop()
		if err := <-said; !errors.Is(err, c.want) || ExitCode(err) != c.exit {
			t.Errorf("the question ends with %v, exit code %d, want %v and %d", err, ExitCode(err), c.want, c.exit)
		}
	}
}

// TestAsk: only y and yes are consent.
func TestAsk(t *testing.T) {
	t.Parallel()
	for in, consents := range map[string]bool{"y\n": true, " YES \r\n": true, "yes": true, "n\n": false, "\n": false, "": false, "yesterday\n": false} {
		var talk bytes.Buffer
		err := (&Shell{Stdin: strings.NewReader(in), Stderr: Stream{&talk}}).Ask(t.Context(), "drop it")
		if (err == nil) != consents || talk.String() != "hapctl: drop it? [y/N] " {
			t.Errorf("%q: %v after %q", in, err, talk.String())
		}
	}
}
