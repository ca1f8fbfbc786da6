// Package compact keeps texts, of which there may be a million, in little memory.
package compact

import (
	"encoding/binary"
	"strings"

	"github.com/google/uuid"
)

// Values numbers values from 1, each once. The zero value is ready for use. It is not safe for concurrent use.
type Values[V comparable] struct {
	numbers map[V]uint32
	values  []V
}

// Number returns the number of a value.
func (v *Values[V]) Number(value V) uint32 {
	n, known := v.numbers[value]
	if !known {
		if v.numbers == nil {
			v.numbers = map[V]uint32{}
		}
		v.values = append(v.values, value)
		n = uint32(len(v.values)) // 2^32 values do not fit into memory
		v.numbers[value] = n
	}
	return n
}

// Value returns the value that has the number.
func (v *Values[V]) Value(number uint32) V { return v.values[number-1] }

// Texts numbers texts, each once. The zero value is ready for use; "" has the number 0. It is not safe for concurrent
// use.
type Texts struct{ kept Values[string] }

// Number returns the number of a text. It adds a copy of the text if it is new: a part of a message would keep all of
// the message in memory.
func (t *Texts) Number(text string) uint32 {
	if text == "" {
		return 0
	}
	if n, known := t.kept.numbers[text]; known {
		return n
	}
	return t.kept.Number(strings.Clone(text))
}

// Once returns the kept text that equals text. It adds a copy if there is none.
func (t *Texts) Once(text string) string { return t.Text(t.Number(text)) }

// Text returns the text that has the number.
func (t *Texts) Text(number uint32) string {
	if number == 0 {
		return ""
	}
	return t.kept.Value(number)
}

// Alike keeps one of all values that a list of texts tells apart. The zero value is ready for use. It is not safe for
// concurrent use.
type Alike[V any] struct {
	kept map[string]V
	key  []byte
}

// Once returns the value that is kept for the texts. If there is none, it keeps value.
func (a *Alike[V]) Once(value V, texts ...string) V {
	a.key = a.key[:0]
	for _, text := range texts {
		a.key = append(binary.AppendUvarint(a.key, uint64(len(text))), text...)
	}
	if known, there := a.kept[string(a.key)]; there {
		return known
	}
	if a.kept == nil {
		a.kept = map[string]V{}
	}
	a.kept[string(a.key)] = value
	return value
}

// ID stands for an id. Equal ids of the same IDs have equal values; "" has the zero value.
type ID [16]byte

// IDs converts ids. A UUID in its usual form, as KEB's ids are, takes no memory beside its ID. The zero value is ready
// for use. It is not safe for concurrent use.
type IDs struct{ others Texts }

// numbered is the length of the prefix of zeros that tells the number of another text from a UUID: a UUID that begins
// with it is kept as text.
const numbered = 12

// Of returns the ID that stands for an id.
func (s *IDs) Of(id string) ID {
	if u, usual := usual(id); usual {
		return u
	}
	var number ID
	binary.BigEndian.PutUint32(number[numbered:], s.others.Number(id))
	return number
}

// usual returns the bytes of a UUID in lower case with hyphens.
func usual(id string) (ID, bool) {
	if len(id) != 36 {
		return ID{}, false
	}
	u, err := uuid.Parse(id)
	if err != nil || ID(u).isNumber() {
		return ID{}, false
	}
	for i := range len(id) {
		if id[i] >= 'A' && id[i] <= 'F' {
			return ID{}, false
		}
	}
	return ID(u), true
}

func (id ID) isNumber() bool { return [numbered]byte(id[:numbered]) == [numbered]byte{} }

// Text returns the id that id stands for.
func (s *IDs) Text(id ID) string {
	if !id.isNumber() {
		return uuid.UUID(id).String()
	}
	return s.others.Text(binary.BigEndian.Uint32(id[numbered:]))
}
