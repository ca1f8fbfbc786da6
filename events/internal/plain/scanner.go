package events

// plainScanner reads JSON as nearly everybody writes it: objects, arrays and strings
// without escapes. Whatever else it meets, right or wrong, makes it unsure, and it
// reads nothing more. Its text must be valid UTF-8. What it gives are parts of the text.
type plainScanner struct {
	text   string
	at     int
	unsure bool
}

func (s *plainScanner) doubt() { s.unsure, s.at = true, len(s.text) }

// peek is the next byte, after white space; 0 at the end.
func (s *plainScanner) peek() byte {
	for ; s.at < len(s.text); s.at++ {
		if c := s.text[s.at]; c != ' ' && c != '\n' && c != '\r' && c != '\t' {
			return c
		}
	}
	return 0
}

// take passes the byte that must come next, after white space.
func (s *plainScanner) take(c byte) {
	if s.peek() != c {
		s.doubt()
		return
	}
	s.at++
}

// first begins an object or array and reports whether anything is in it.
func (s *plainScanner) first(begin, end byte) bool {
	s.take(begin)
	if s.peek() == end {
		s.at++
		return false
	}
	return !s.unsure
}

// next reports whether anything follows in an object or array, and ends it where not.
func (s *plainScanner) next(end byte) bool {
	if s.peek() == end {
		s.at++
		return false
	}
	s.take(',')
	return !s.unsure
}

// end is where the message must end.
func (s *plainScanner) end() {
	if s.peek(); s.at < len(s.text) {
		s.doubt()
	}
}

// name is that of a member, whose value comes next.
func (s *plainScanner) name() string {
	name := s.string()
	s.take(':')
	return name
}

func (s *plainScanner) string() string {
	s.take('"')
	rest := s.text[s.at:]
	for i := range len(rest) {
		switch c := rest[i]; {
		case c == '"':
			s.at += i + 1
			return rest[:i]
		case c < ' ' || c == '\\':
			s.doubt()
			return ""
		}
	}
	s.doubt()
	return ""
}

// member reads the string of a member into target; one that comes twice is an error
// that somebody else words.
func (s *plainScanner) member(have *memberSet, which memberSet, target *string) {
	s.once(have, which)
	*target = s.string()
}

func (s *plainScanner) once(have *memberSet, which memberSet) {
	if *have&which != 0 {
		s.doubt()
	}
	*have |= which
}

// memberSet is those of an object's members that were read, a bit each.
type memberSet uint16
