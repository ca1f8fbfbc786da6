// Package plain reads JSON that is written as most programs write it, and writes such JSON.
package plain

// Scanner reads the usual form of JSON: objects, arrays, and strings without escapes. Anything else,
// valid or not, makes it unsure, and it reads nothing more. Its text must be valid UTF-8. It returns
// substrings of the text.
type Scanner struct {
	text   string
	at     int
	Unsure bool // the text is not in the usual form; discard what was read
}

// Scan returns a Scanner of a text.
func Scan(text string) Scanner { return Scanner{text: text} }

// Doubt makes the Scanner unsure and ends the reading.
func (s *Scanner) Doubt() { s.Unsure, s.at = true, len(s.text) }

// peek skips white space and returns the next byte, 0 at the end.
func (s *Scanner) peek() byte {
	for ; s.at < len(s.text); s.at++ {
		if c := s.text[s.at]; c != ' ' && c != '\n' && c != '\r' && c != '\t' {
			return c
		}
	}
	return 0
}

// take skips white space and consumes the byte c. Any other byte makes the Scanner unsure.
func (s *Scanner) take(c byte) {
	if s.peek() != c {
		s.Doubt()
		return
	}
	s.at++
}

// First consumes the beginning of an object or array, and reports whether it has a first member or
// element. It also consumes the end of an empty one.
func (s *Scanner) First(begin, end byte) bool {
	s.take(begin)
	if s.peek() == end {
		s.at++
		return false
	}
	return !s.Unsure
}

// Next reports whether another member or element follows, and consumes the comma before it, or else
// the end.
func (s *Scanner) Next(end byte) bool {
	if s.peek() == end {
		s.at++
		return false
	}
	s.take(',')
	return !s.Unsure
}

// End makes the Scanner unsure if anything but white space is left.
func (s *Scanner) End() {
	if s.peek(); s.at < len(s.text) {
		s.Doubt()
	}
}

// Name reads the name of a member and its colon.
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

// Member reads the string of a member into target. A repeated member makes the Scanner unsure: the
// full decoder returns the error.
func (s *Scanner) Member(have *Members, which Members, target *string) {
	s.Once(have, which)
	*target = s.Text()
}

// Once notes that a member is read. A repeated member makes the Scanner unsure.
func (s *Scanner) Once(have *Members, which Members) {
	if *have&which != 0 {
		s.Doubt()
	}
	*have |= which
}

// Members is the set of members of an object that were read, one bit each.
type Members uint16
