package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// AuditWithin is the default time limit of a command that reads a whole stream or waits for the user's consent.
const AuditWithin = 10 * time.Minute

// Confirm names the change and its target, and asks for consent on a terminal unless
// yes is set. Without a terminal and without yes it returns a usage error.
func (s *Shell) Confirm(ctx context.Context, what string, yes bool) error {
	s.Announce(what)
	if yes {
		return nil
	}
	if !Terminal(s.Stdin) {
		return Usagef("%s? Pass --yes: there is no terminal to ask on", what)
	}
	return s.Ask(ctx, what)
}

// ShowAffected shows on standard error what a change is about to affect: at most 20 rows, shortened as by FittedText.
func (s *Shell) ShowAffected(header []string, rows [][]string, shorten ...string) {
	const most = 20
	FittedText(s.Stderr, false, header, rows[:min(most, len(rows))], shorten...)
	if more := len(rows) - most; more > 0 {
		s.Say("and %d more", more)
	}
}

// Ask asks for consent on a terminal. It returns an error if the user does not consent, and the error of ctx as
// soon as ctx ends: the read of the answer then goes on until the program ends.
func (s *Shell) Ask(ctx context.Context, what string) error {
	fmt.Fprintf(s.Stderr, "hapctl: %s? [y/N] ", what)
	type line struct {
		text string
		err  error
	}
	answered := make(chan line, 1)
	go func() {
		text, err := bufio.NewReader(s.Stdin).ReadString('\n')
		answered <- line{text, err}
	}()
	var answer line
	select {
	case answer = <-answered:
	case <-ctx.Done():
		fmt.Fprintln(s.Stderr)
		return fmt.Errorf("nothing was changed: %w", ctx.Err())
	}
	if answer.err != nil && !errors.Is(answer.err, io.EOF) {
		return answer.err
	}
	switch strings.ToLower(strings.TrimSpace(answer.text)) {
	case "y", "yes":
		return nil
	}
	return &ExitError{Code: ExitFailure, Err: errors.New("nothing was changed")}
}
