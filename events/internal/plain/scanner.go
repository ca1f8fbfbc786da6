// Package plain reads JSON that is written as most programs write it, and writes such JSON.
package plain

// Scanner reads JSON as nearly everybody writes it: objects, arrays and strings
// without escapes. Whatever else it meets, right or wrong, makes it unsure, and it
// reads nothing more. Its text must be valid UTF-8. What it returns are parts of the text.
type Scanner struct {
	text   string
	at     int
	Unsure bool // it met something else
}

// Scan returns a Scanner of a text.
func Scan(text string) Scanner { return Scanner{text: text} }

// Doubt makes it unsure.
func (s *Scanner) Doubt() { s.Unsure, s.at = true, len(s.text) }

// peek is the next byte, after white space; 0 at the end.
func (s *Scanner) peek() byte {
	for ; s.at < len(s.text); s.at++ {
		if c := s.text[s.at]; c != ' ' && c != '\n' && c != '\r' && c != '\t' {
			return c
		}
	}
	return 0
}

// take passes the byte that must come next, after white space.
func (s *Scanner) take(c byte) {
	if s.peek() != c {
		s.Doubt()
		return
	}
	s.at++
}

// First begins an object or array and reports whether anything is in it.
func (s *Scanner) First(begin, end byte) bool {
	s.take(begin)
	if s.peek() == end {
		s.at++
		return false
	}
	return !s.Unsure
}

// Next reports whether anything follows in an object or array, and ends it where not.
func (s *Scanner) Next(end byte) bool {
	if s.peek() == end {
		s.at++
		return false
	}
	s.take(',')
	return !s.Unsure
}

// End is where the message must end.
func (s *Scanner) End() {
	if s.peek(); s.at < len(s.text) {
		s.Doubt()
	}
}

// Name is that of a member, whose value comes next.
func (s *Scanner) Name() string {
	name := s.Text()
	s.take(':')
	return name
}

// Text reads a string.
func (s *Scanner) Text() string {
	s.take('"')
	rest := s.text[s.at:]
	for i := range len(rest) {
		switch c := rest[i]; {
		case c == '"':
			s.at += i + 1
			return rest[:i]
		case c < ' ' || c == '\\':
			s.Doubt()
			return ""
		}
	}
	s.Doubt()
	return ""
}

// Member reads the string of a member into target; one that comes twice is an error
// that the full decoder words.
func (s *Scanner) Member(have *Members, which Members, target *string) {
	s.Once(have, which)
	*target = s.Text()
}

// Once notes that a member is read; one that comes twice makes it unsure.
func (s *Scanner) Once(have *Members, which Members) {
	if *have&which != 0 {
		s.Doubt()
	}
	*have |= which
}

// Members is those of an object's members that were read, a bit each.
type Members uint16
