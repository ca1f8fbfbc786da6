// Package compact keeps texts, of which there may be a million, in little memory.
package compact

import (
	"encoding/binary"
	"strings"

	"github.com/google/uuid"
)

// Texts numbers texts, each once. The zero value is ready for use; "" has the number 0. It is not safe for concurrent
// use.
type Texts struct {
	numbers map[string]uint32
	texts   []string // from number 1
}

// Number returns the number of a text. It adds a copy of the text if it is new: a part of a message would keep all of
// the message in memory.
func (t *Texts) Number(text string) uint32 {
	if text == "" {
		return 0
	}
	n, known := t.numbers[text]
	if !known {
		if t.numbers == nil {
			t.numbers = map[string]uint32{}
		}
		text = strings.Clone(text)
		t.texts = append(t.texts, text)
		n = uint32(len(t.texts)) // 2^32 texts do not fit into memory
		t.numbers[text] = n
	}
	return n
}

// Once returns the kept text that equals text. It adds a copy if there is none.
func (t *Texts) Once(text string) string { return t.Text(t.Number(text)) }

// Text returns the text that has the number.
func (t *Texts) Text(number uint32) string {
	if number == 0 {
		return ""
	}
	return t.texts[number-1]
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
