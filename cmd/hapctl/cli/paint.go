package cli

import (
	"bytes"
	"os"
)

// Painted is a view whose lines have colours on a terminal; line 0 is the header.
type Painted interface{ ColourOf(line int) Control }

// Paint writes the text of a view with its colours, unless NO_COLOR is set or it is no terminal.
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

// PaintLines begins with the first line that is there.
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
