package plain

import (
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Writer appends JSON to Out, byte for byte as json.Marshal writes it. If it cannot write a
// value like json.Marshal, it sets Unsure, and the caller must discard Out. A Writer is passed
// by value: with a buffer behind a pointer, each append would cost a write barrier.
type Writer struct {
	Out    []byte
	Unsure bool // the caller must discard Out
}

// Comma writes a comma unless the next member or element is the first.
func (w Writer) Comma() Writer {
	if last := w.Out[len(w.Out)-1]; last != '{' && last != '[' { // a value ends in neither
		w.Out = append(w.Out, ',')
	}
	return w
}

// Member writes the name of a member and its colon. The name must need no escapes.
func (w Writer) Member(name string) Writer {
	w = w.Comma()
	w.Out = append(w.Out, '"')
	w.Out = append(w.Out, name...)
	w.Out = append(w.Out, '"', ':')
	return w
}

// Object opens a member whose value is an object; End closes it.
func (w Writer) Object(name string) Writer { return w.Member(name).Raw('{') }

// Array opens a member whose value is an array; EndArray closes it.
func (w Writer) Array(name string) Writer { return w.Member(name).Raw('[') }

// Element opens an object in an array.
func (w Writer) Element() Writer { return w.Comma().Raw('{') }

// End closes an object.
func (w Writer) End() Writer { return w.Raw('}') }

// EndArray closes an array.
func (w Writer) EndArray() Writer { return w.Raw(']') }

// Raw writes one byte unchanged.
func (w Writer) Raw(c byte) Writer {
	w.Out = append(w.Out, c)
	return w
}

// Text writes a member whose value is a string.
func (w Writer) Text(name, value string) Writer { return w.Member(name).Quote(value) }

// TextGiven writes a string member unless the string is empty.
func (w Writer) TextGiven(name, value string) Writer {
	if value == "" {
		return w
	}
	return w.Text(name, value)
}

// Whole writes a member whose value is an integer.
func (w Writer) Whole(name string, n int64) Writer {
	w = w.Member(name)
	w.Out = strconv.AppendInt(w.Out, n, 10)
	return w
}

// WholeGiven writes an integer member unless the integer is 0.
func (w Writer) WholeGiven(name string, n int64) Writer {
	if n == 0 {
		return w
	}
	return w.Whole(name, n)
}

// Truth writes a member whose value is a boolean.
func (w Writer) Truth(name string, is bool) Writer {
	w = w.Member(name)
	w.Out = strconv.AppendBool(w.Out, is)
	return w
}

// TruthGiven writes a member if its value is true.
func (w Writer) TruthGiven(name string, is bool) Writer {
	if !is {
		return w
	}
	return w.Truth(name, is)
}

// TimeGiven writes a time as RFC 3339 unless it is zero.
func (w Writer) TimeGiven(name string, at time.Time) Writer {
	if at.IsZero() {
		return w
	}
	w = w.Member(name).Raw('"')
	var err error
	if w.Out, err = at.AppendText(w.Out); err != nil {
		w.Unsure = true // RFC 3339 cannot express the year or time zone
	}
	return w.Raw('"')
}

// Texts writes a member whose value is an array of strings.
func (w Writer) Texts(name string, values []string) Writer {
	w = w.Array(name)
	for _, value := range values {
		w = w.Comma().Quote(value)
	}
	return w.EndArray()
}

// TextsByName writes an object of strings, sorted by name.
func (w Writer) TextsByName(name string, texts map[string]string) Writer {
	var few [16]string
	names := few[:0]
	for name := range texts {
		names = append(names, name)
		if !utf8.ValidString(name) {
			w.Unsure = true // after the repair, two names may be equal
		}
	}
	slices.Sort(names)
	w = w.Object(name)
	for _, name := range names {
		w = w.Comma().Quote(name).Raw(':').Quote(texts[name])
	}
	return w.End()
}

// Tree writes an object, sorted by name. Its values are strings and objects of the same
// kind.
func (w Writer) Tree(members map[string]any) Writer {
	var few [4]string
	names := few[:0]
	for name := range members {
		names = append(names, name)
		if !utf8.ValidString(name) {
			w.Unsure = true // after the repair, two names may be equal
		}
	}
	slices.Sort(names)
	w = w.Raw('{')
	for _, name := range names {
		w = w.Comma().Quote(name).Raw(':')
		switch value := members[name].(type) {
		case string:
			w = w.Quote(value)
		case map[string]any:
			w = w.Tree(value)
		default:
			w.Unsure = true
			w = w.Raw('0') // Comma checks the last byte of Out
		}
	}
	return w.End()
}

// Quote writes a string. It repairs invalid UTF-8.
func (w Writer) Quote(value string) Writer {
	for i := range len(value) {
		if c := value[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' {
			w.Out, _ = jsontext.AppendQuote(w.Out, value) // the error only says that it repaired the string
			return w
		}
	}
	w.Out = append(w.Out, '"')
	w.Out = append(w.Out, value...)
	w.Out = append(w.Out, '"')
	return w
}
