package cli

import (
	"bytes"
	"os"
)

// Painted is a view with coloured lines on a terminal. ColourOf returns the colour of a line; line 0 is the
// header.
type Painted interface{ ColourOf(line int) Control }

// Paint writes text, the shown form of v, in the colours of v if v is Painted, standard output is a terminal
// that understands control sequences, and NO_COLOR is not set.
func (s *Shell) Paint(out Stream, text []byte, v View) error {
	p, ok := v.(Painted)
	if !ok || os.Getenv("NO_COLOR") != "" || !s.Stdout.Moves() {
		_, err := out.Write(text)
		return err
	}
	first := 0
	if s.noHeaders {
		first = 1
	}
	return PaintLines(out, text, p, first)
}

// PaintLines writes text in the colours of p. line is the number of text's first line.
func PaintLines(out Stream, text []byte, p Painted, line int) error {
	for one := range bytes.Lines(text) {
		after := Control("")
		if c := p.ColourOf(line); c != Plain {
			if err := out.Control(c); err != nil {
				return err
			}
			one, after = bytes.TrimSuffix(one, []byte("\n")), Reset+"\n"
		}
		if _, err := out.Write(one); err != nil {
			return err
		}
		if err := out.Control(after); err != nil {
			return err
		}
		line++
	}
	return nil
}
