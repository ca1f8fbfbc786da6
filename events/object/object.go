// Package object reads JSON objects strictly. Its errors tell a publisher which member is wrong, and
// why. Package events reads messages with it; a publisher calls events.Decode and events.DecodeReply
// instead.
package object

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// MaxWhole is the highest whole number that is accepted: every JSON reader represents it exactly.
const MaxWhole = 1<<53 - 1

// strictly refuses null for every known member, except one that may have any value. Like JSON Schema, it
// accepts 3.0 as the whole number 3.
var strictly = json.WithUnmarshalers(json.UnmarshalFromFunc(readStrictly))

// withoutNull does the same as strictly for JSON without null, the usual case. It is faster: json calls it
// for whole numbers only, not for every member.
var withoutNull = json.WithUnmarshalers(json.JoinUnmarshalers(json.UnmarshalFromFunc(readWhole), json.UnmarshalFromFunc(readInt)))

// fault is the text of a fault in a member, without the member's name.
type fault string

func (f fault) Error() string { return string(f) }

func readStrictly(dec *jsontext.Decoder, target any) error {
	switch target.(type) {
	case *jsontext.Value, *any:
		return errors.ErrUnsupported
	}
	if dec.PeekKind() == 'n' {
		return fault("must not be null")
	}
	switch target := target.(type) {
	case *int64:
		return readWhole(dec, target)
	case *int:
		return readInt(dec, target)
	}
	return errors.ErrUnsupported
}

func readInt(dec *jsontext.Decoder, target *int) error {
	var n int64
	if err := readWhole(dec, &n); err != nil {
		return err
	}
	*target = int(n)
	return nil
}

func readWhole(dec *jsontext.Decoder, target *int64) error {
	if dec.PeekKind() != '0' {
		return errors.ErrUnsupported
	}
	raw, err := dec.ReadValue()
	if err != nil {
		return err
	}
	n, ok := whole(string(raw))
	if !ok {
		return fault("must be a whole number from 0 to 2^53-1")
	}
	*target = n
	return nil
}

// whole returns the value of a JSON number from 0 to 2^53-1 without a fraction, however it is written,
// and false for any other number.
func whole(number string) (int64, bool) {
	number, negative := strings.CutPrefix(number, "-")
	mantissa, exponent, _ := strings.Cut(strings.ToLower(number), "e")
	integer, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(integer+fraction, "0")
	if digits == "" || negative {
		return 0, digits == ""
	}
	shift, ok := decimal(exponent)
	if !ok {
		return 0, false
	}
	shift -= len(fraction)
	for shift < 0 && strings.HasSuffix(digits, "0") {
		digits, shift = digits[:len(digits)-1], shift+1
	}
	if shift < 0 || len(digits)+shift > len("9007199254740991") {
		return 0, false
	}
	var n int64
	for i := range len(digits) + shift {
		n *= 10
		if i < len(digits) {
			n += int64(digits[i] - '0')
		}
	}
	return n, n <= MaxWhole
}

// decimal reads an exponent. It returns false for one beyond a million, which no number up to MaxWhole
// needs.
func decimal(exponent string) (int, bool) {
	negative := strings.HasPrefix(exponent, "-")
	n := 0
	for _, c := range strings.TrimLeft(exponent, "+-") {
		if n = n*10 + int(c-'0'); n > 1_000_000 {
			return 0, false
		}
	}
	if negative {
		n = -n
	}
	return n, true
}

// Read reads the JSON object data into target. Its errors name the member by its path, which begins with
// parent, or the byte of a syntax error.
func Read(data []byte, target any, parent string) error {
	how := withoutNull
	if bytes.Contains(data, []byte("null")) {
		how = strictly
	}
	err := json.Unmarshal(data, target, how)
	if err == nil {
		return nil
	}
	if syntactic, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return syntaxFault(syntactic, parent)
	}
	if semantic, ok := errors.AsType[*json.SemanticError](err); ok {
		return semanticFault(semantic, parent)
	}
	return fmt.Errorf("%s: %w", pathOf(parent, ""), err)
}

func syntaxFault(err *jsontext.SyntacticError, parent string) error {
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		return fmt.Errorf("%s is there twice", pathOf(parent, err.JSONPointer))
	default:
		return fmt.Errorf("the message is not JSON: at byte %d: %s",
			err.ByteOffset, strings.TrimPrefix(err.Err.Error(), "jsontext: "))
	}
}

func semanticFault(err *json.SemanticError, parent string) error {
	path := pathOf(parent, err.JSONPointer)
	if own, ok := errors.AsType[fault](err.Err); ok {
		return fmt.Errorf("%s %s", path, own.Error())
	}
	if err.JSONKind == '"' && err.Err != nil {
		return fmt.Errorf("%s must be a time such as 2026-11-20T12:00:00Z", path)
	}
	return fmt.Errorf("%s must be %s, is %s", path, nameOfType(err.GoType), nameOfKind(err.JSONKind))
}

// pathOf writes a JSON pointer below parent as data.cluster.name.
func pathOf(parent string, pointer jsontext.Pointer) string {
	var b strings.Builder
	b.WriteString(parent)
	for token := range pointer.Tokens() {
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(token)
	}
	if b.Len() == 0 {
		return "the message"
	}
	return b.String()
}

func nameOfType(t reflect.Type) string {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == nil:
		return "something else"
	case t.PkgPath() == "time", t.Kind() == reflect.String:
		return "a string"
	case t.Kind() == reflect.Slice:
		return "an array"
	case t.Kind() == reflect.Struct, t.Kind() == reflect.Map:
		return "an object"
	case t.Kind() == reflect.Bool:
		return "true or false"
	default:
		return "a whole number"
	}
}

func nameOfKind(kind jsontext.Kind) string {
	switch kind {
	case 'n':
		return "null"
	case 't', 'f':
		return "a boolean"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case '[', ']':
		return "an array"
	default:
		return "an object"
	}
}

// Quote quotes a publisher's value, shortened to 80 bytes.
func Quote(s string) string {
	const most = 80
	if len(s) > most {
		s = s[:most] + "…"
	}
	return fmt.Sprintf("%q", s)
}
