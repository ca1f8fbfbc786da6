package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// AuditWithin is the time limit of a command that reads the whole ledger.
const AuditWithin = 10 * time.Minute

// Confirm names the change and its target, and asks for consent on a terminal unless
// yes is set. Without a terminal and without yes it returns a usage error.
func (s *Shell) Confirm(what string, yes bool) error {
	s.Announce(what)
	if yes {
		return nil
	}
	if !Terminal(s.Stdin) {
		return Usagef("%s? Pass --yes: there is no terminal to ask on", what)
	}
	return s.Ask(what)
}

// Ask asks for consent on a terminal. It returns an error if the user does not consent.
func (s *Shell) Ask(what string) error {
	fmt.Fprintf(s.Stderr, "hapctl: %s? [y/N] ", what)
	answer, err := bufio.NewReader(s.Stdin).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return &ExitError{Code: ExitFailure, Err: errors.New("nothing was changed")}
}
