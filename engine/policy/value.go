package policy

import (
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// value is the content of a node in the types that JSON has: maps with string
// keys, lists, strings, numbers, booleans and nil.
func (r *reader) value(n *yaml.Node, at string) any {
	if n = r.follow(n, at); n == nil {
		return nil
	}
	var v any
	if err := n.Decode(&v); err != nil {
		r.undecoded(n, at, err)
		return nil
	}
	return stringKeys(v)
}

// undecoded tells why a value is none; what it says may be a secret.
func (r *reader) undecoded(n *yaml.Node, at string, err error) {
	types, several := errors.AsType[*yaml.TypeError](err)
	switch {
	case r.private:
		r.fault(n.Line, at, Syntax, "is not understood; a key is there twice, or a tag does not fit its value")
	case several:
		for _, text := range types.Errors {
			r.broken(n.Line, at, "is not understood: ", text)
		}
	default:
		r.broken(n.Line, at, "is not understood: ", err.Error())
	}
}

// untimed leaves what YAML takes for a point in time the text that it is: JSON has
// no such type.
func untimed(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!timestamp" {
		n.Tag = "!!str"
	}
	for _, below := range n.Content {
		untimed(below)
	}
}

func stringKeys(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key := range v {
			v[key] = stringKeys(v[key])
		}
	case map[any]any:
		m := make(map[string]any, len(v))
		for key := range v {
			m[fmt.Sprint(key)] = stringKeys(v[key])
		}
		return m
	case []any:
		for i := range v {
			v[i] = stringKeys(v[i])
		}
	}
	return v
}
