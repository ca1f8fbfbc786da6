package object

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Strings collects the string members of the message into top, and the string members of its data into
// inner, up to the first syntax error. If a name occurs twice, the first value counts.
func Strings(message []byte, top, inner map[string]string) {
	dec := jsontext.NewDecoder(strings.NewReader(string(message)), jsontext.AllowDuplicateNames(true))
	members(dec, top, func(name string) bool {
		if name != "data" || dec.PeekKind() != '{' {
			return false
		}
		members(dec, inner, func(string) bool { return false })
		return true
	})
}

// members reads an object's string members into found, and ignores others. It calls own with each name; own
// returns true if it has read the value itself.
func members(dec *jsontext.Decoder, found map[string]string, own func(name string) bool) {
	if dec.PeekKind() != '{' {
		return
	}
	if _, err := dec.ReadToken(); err != nil {
		return
	}
	for dec.PeekKind() == '"' {
		token, err := dec.ReadToken()
		if err != nil {
			return
		}
		name := token.String()
		if own(name) {
			continue
		}
		if dec.PeekKind() != '"' {
			if dec.SkipValue() != nil {
				return
			}
			continue
		}
		value, err := dec.ReadToken()
		if err != nil {
			return
		}
		if _, twice := found[name]; !twice {
			found[name] = value.String()
		}
	}
	_, _ = dec.ReadToken() // the closing brace; if it is missing, the next read fails too
}
