package events

import (
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// plainWriter appends JSON, byte for byte as json.Marshal writes it. What cannot be
// written so makes it unsure, and what it has written is then of no use. It goes by
// value: a buffer behind a pointer costs a write barrier with each append.
type plainWriter struct {
	out    []byte
	unsure bool
}

// comma comes before every member and element but the first.
func (w plainWriter) comma() plainWriter {
	if last := w.out[len(w.out)-1]; last != '{' && last != '[' { // neither ends a value
		w.out = append(w.out, ',')
	}
	return w
}

// member begins a member, whose name needs no escapes.
func (w plainWriter) member(name string) plainWriter {
	w = w.comma()
	w.out = append(w.out, '"')
	w.out = append(w.out, name...)
	w.out = append(w.out, '"', ':')
	return w
}

// object and array begin a member's value, end ends it.
func (w plainWriter) object(name string) plainWriter { return w.member(name).raw('{') }

func (w plainWriter) array(name string) plainWriter { return w.member(name).raw('[') }

// element begins an object in an array.
func (w plainWriter) element() plainWriter { return w.comma().raw('{') }

func (w plainWriter) end() plainWriter { return w.raw('}') }

func (w plainWriter) endArray() plainWriter { return w.raw(']') }

func (w plainWriter) raw(c byte) plainWriter {
	w.out = append(w.out, c)
	return w
}

func (w plainWriter) text(name, value string) plainWriter { return w.member(name).quote(value) }

// textGiven is text for what is absent where it is empty; so are the others.
func (w plainWriter) textGiven(name, value string) plainWriter {
	if value == "" {
		return w
	}
	return w.text(name, value)
}

func (w plainWriter) whole(name string, n int64) plainWriter {
	w = w.member(name)
	w.out = strconv.AppendInt(w.out, n, 10)
	return w
}

func (w plainWriter) wholeGiven(name string, n int64) plainWriter {
	if n == 0 {
		return w
	}
	return w.whole(name, n)
}

func (w plainWriter) truth(name string, is bool) plainWriter {
	w = w.member(name)
	w.out = strconv.AppendBool(w.out, is)
	return w
}

func (w plainWriter) truthGiven(name string, is bool) plainWriter {
	if !is {
		return w
	}
	return w.truth(name, is)
}

func (w plainWriter) timeGiven(name string, at time.Time) plainWriter {
	if at.IsZero() {
		return w
	}
	w = w.member(name).raw('"')
	var err error
	if w.out, err = at.AppendText(w.out); err != nil {
		w.unsure = true // RFC 3339 has no such year or time zone
	}
	return w.raw('"')
}

func (w plainWriter) texts(name string, values []string) plainWriter {
	w = w.array(name)
	for _, value := range values {
		w = w.comma().quote(value)
	}
	return w.endArray()
}

// textsByName writes an object, its members in the order of their names.
func (w plainWriter) textsByName(name string, texts map[string]string) plainWriter {
	var few [16]string
	names := few[:0]
	for name := range texts {
		names = append(names, name)
		if !utf8.ValidString(name) {
			w.unsure = true // repaired, it may be the same as another
		}
	}
	slices.Sort(names)
	w = w.object(name)
	for _, name := range names {
		w = w.comma().quote(name).raw(':').quote(texts[name])
	}
	return w.end()
}

// tree writes an object, its members in the order of their names, that has texts and
// such objects.
func (w plainWriter) tree(members map[string]any) plainWriter {
	var few [4]string
	names := few[:0]
	for name := range members {
		names = append(names, name)
		if !utf8.ValidString(name) {
			w.unsure = true // repaired, it may be the same as another
		}
	}
	slices.Sort(names)
	w = w.raw('{')
	for _, name := range names {
		w = w.comma().quote(name).raw(':')
		switch value := members[name].(type) {
		case string:
			w = w.quote(value)
		case map[string]any:
			w = w.tree(value)
		default:
			w.unsure = true
			w = w.raw('0') // comma looks at the end of what is written
		}
	}
	return w.end()
}

// quote writes a string. What is no UTF-8 in it is repaired.
func (w plainWriter) quote(value string) plainWriter {
	for i := range len(value) {
		if c := value[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' {
			w.out, _ = jsontext.AppendQuote(w.out, value) // the error says no more than that it was repaired
			return w
		}
	}
	w.out = append(w.out, '"')
	w.out = append(w.out, value...)
	w.out = append(w.out, '"')
	return w
}
