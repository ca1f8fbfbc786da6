package counters

import (
	"errors"
	"strconv"
)

// reply reads the result of a script, front to back: its values, or the fields of one text
// (lua.Joined).
type reply struct {
	values    []any
	fields    []string
	elsewhere bool // the runtime belongs to another pool
	err       error
}

func (r *reply) next() (text string, number int64, isText bool) {
	if len(r.fields) > 0 {
		text, r.fields = r.fields[0], r.fields[1:]
		return text, 0, true
	}
	if len(r.values) == 0 {
		r.err = errors.New("a script returned fewer values than it should")
		return "", 0, true
	}
	v := r.values[0]
	r.values = r.values[1:]
	text, isText = v.(string)
	number, _ = v.(int64)
	return text, number, isText
}

func (r *reply) text() string {
	text, _, isText := r.next()
	if !isText && r.err == nil {
		r.err = errors.New("a script returned a number where it should return a text")
	}
	return text
}

func (r *reply) number() int64 {
	text, number, isText := r.next()
	if !isText || r.err != nil {
		return number
	}
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		r.err = err
	}
	return number
}

func (r *reply) flag() bool { return r.number() == 1 }

// left is how many values are left.
func (r *reply) left() int { return len(r.values) + len(r.fields) }

func (r *reply) more() bool { return r.err == nil && r.left() > 0 }
