package script

import (
	"cmp"
	"errors"
	"strconv"
)

// Reply reads the result of a script from front to back: a list of values, or one text that joins them (Joined).
type Reply struct {
	Elsewhere bool // the directory has another entry for the runtime than the script expected

	values []any
	fields []string
	err    error
}

func (r *Reply) next() (text string, number int64, isText bool) {
	if len(r.fields) > 0 {
		text, r.fields = r.fields[0], r.fields[1:]
		return text, 0, true
	}
	if len(r.values) == 0 {
		r.Fail(errors.New("a script returned fewer values than it should"))
		return "", 0, true
	}
	v := r.values[0]
	r.values = r.values[1:]
	text, isText = v.(string)
	number, _ = v.(int64)
	return text, number, isText
}

// Text reads a text.
func (r *Reply) Text() string {
	text, _, isText := r.next()
	if !isText {
		r.Fail(errors.New("a script returned a number where it should return a text"))
	}
	return text
}

// Number reads a whole number.
func (r *Reply) Number() int64 {
	text, number, isText := r.next()
	if !isText || r.err != nil {
		return number
	}
	number, err := strconv.ParseInt(text, 10, 64)
	r.Fail(err)
	return number
}

// Flag reads a number that is 1 for true.
func (r *Reply) Flag() bool { return r.Number() == 1 }

// Left returns how many values are left.
func (r *Reply) Left() int { return len(r.values) + len(r.fields) }

// More reports whether there is anything left to read, and no error.
func (r *Reply) More() bool { return r.err == nil && r.Left() > 0 }

// Fail records an error unless it is nil or an earlier one is recorded.
func (r *Reply) Fail(err error) { r.err = cmp.Or(r.err, err) }

// Err returns the first error: a value that is missing, is of another kind, or was refused with Fail.
func (r *Reply) Err() error { return r.err }
