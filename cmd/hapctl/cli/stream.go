package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/hap-worker/hap-worker/engine/spelling"
)

// Stream is standard output or standard error. A command writes to them only through a Stream. Text of others
// (a dead letter, a label, the error of a server) must not control the terminal that shows it: Write escapes
// hidden characters. To a terminal, only a Control passes as it is.
type Stream struct{ To io.Writer }

// Control is a control sequence that hapctl itself sends to a terminal.
type Control string

// The sequences that hapctl writes.
const (
	Plain     Control = ""
	Red       Control = "\x1b[31m"
	Yellow    Control = "\x1b[33m"
	Reset     Control = "\x1b[0m"
	ClearAll  Control = "\x1b[H\x1b[2J" // clears the screen and moves to its upper left corner
	LineStart Control = "\r\x1b[K"      // moves to the start of the line and clears the line
)

// Write writes text with its hidden characters escaped. A character must not be split between two calls.
func (s Stream) Write(text []byte) (int, error) {
	if _, err := s.To.Write(visible(text)); err != nil {
		return 0, err
	}
	return len(text), nil
}

// Control writes a control sequence.
func (s Stream) Control(c Control) error {
	_, err := io.WriteString(s.To, string(c))
	return err
}

// AtOnce collects the output of draw and writes it in one piece, so that a terminal never shows a part of it.
func (s Stream) AtOnce(draw func(Stream) error) error {
	var drawn bytes.Buffer
	if err := draw(Stream{&drawn}); err != nil {
		return err
	}
	_, err := s.To.Write(drawn.Bytes())
	return err
}

// Data writes bytes for a file or a program unchanged. On a terminal it writes them as text.
func (s Stream) Data(content []byte) error {
	if s.terminal() {
		_, err := s.Write(content)
		return err
	}
	_, err := s.To.Write(content)
	return err
}

// terminal reports whether the stream goes to a terminal.
func (s Stream) terminal() bool { return Terminal(s.To) }

// Moves reports whether the stream goes to a terminal that understands control sequences.
func (s Stream) Moves() bool { return s.terminal() && os.Getenv("TERM") != "dumb" }

// Terminal reports whether end, such as a reader or writer, is a terminal. /dev/null, a character device like a
// terminal, is none: it is the standard input of what cron and systemd start.
func Terminal(end any) bool {
	file, ok := end.(*os.File)
	if !ok {
		return false
	}
	raw, err := file.SyscallConn() // Fd would make reads block, so that nothing could end them
	is := false
	return err == nil && raw.Control(func(fd uintptr) { is = term.IsTerminal(int(fd)) }) == nil && is
}

// visible replaces each hidden character by an escape: controls, escape sequences, changes of the text's
// direction and characters without width. Line ends and tabs stay. The escapes are JSON's, so that the values
// of a JSON document stay the same; a byte that is no UTF-8 becomes \x and two digits.
func visible(text []byte) []byte { return escaped(text, escapeJSON) }

func escaped(text []byte, escape func(to []byte, r rune) []byte) []byte {
	if !hides(text) {
		return text
	}
	out := make([]byte, 0, len(text)+len(text)/4)
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		switch {
		case r == utf8.RuneError && size == 1:
			out = fmt.Appendf(out, `\x%02x`, text[0])
		case hidden(r):
			out = escape(out, r)
		default:
			out = append(out, text[:size]...)
		}
		text = text[size:]
	}
	return out
}

// hides reports whether text has anything that visible escapes.
func hides(text []byte) bool { return !utf8.Valid(text) || bytes.ContainsFunc(text, hidden) }

// hidden reports whether a character, other than a line end or a tab, has no shape: it is in a category of Unicode that
// is not graphic, C (with the bidirectional controls), Zl or Zp, or is spelling.Invisible.
func hidden(r rune) bool {
	return r != '\n' && r != '\t' && (!unicode.IsGraphic(r) || r > unicode.MaxASCII && spelling.Invisible(r))
}

func escapeJSON(to []byte, r rune) []byte {
	if r == '\r' {
		return append(to, `\r`...)
	}
	for _, unit := range utf16.AppendRune(nil, r) {
		to = fmt.Appendf(to, `\u%04x`, unit)
	}
	return to
}

// escapeYAML is for double-quoted scalars, in which YAML knows no pairs of surrogates.
func escapeYAML(to []byte, r rune) []byte { return fmt.Appendf(to, `\U%08x`, r) }
