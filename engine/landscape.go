package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Landscape says which namespace of bindings a Redis and the streams are for. An empty text is unknown.
type Landscape struct {
	// Cluster is the uid of the bindings' namespace. It differs between clusters, and changes if the
	// namespace is deleted and made anew.
	Cluster   string `json:"cluster,omitempty"`
	Namespace string `json:"namespace"` // of the bindings
	Resource  string `json:"resource"`  // of the bindings, such as credentialsbindings
	// Shadow is set if Redis and the streams belong to a shadow, a worker that only compares.
	Shadow bool `json:"shadow,omitempty"`
}

// Same reports whether l and o can be one landscape: both or neither are of a shadow, and the fields that
// are known in both are equal.
func (l Landscape) Same(o Landscape) bool {
	return l.Shadow == o.Shadow && agree(l.Namespace, o.Namespace) && agree(l.Resource, o.Resource) && agree(l.Cluster, o.Cluster)
}

func agree(a, b string) bool { return a == "" || b == "" || a == b }

// Knows reports whether l can be the same landscape as o and has a Cluster if o has one.
func (l Landscape) Knows(o Landscape) bool {
	return l.Same(o) && (l.Cluster != "" || o.Cluster == "")
}

// String describes the landscape in one line for messages.
func (l Landscape) String() string {
	resource, namespace := l.Resource, l.Namespace
	if resource == "" {
		resource = "the bindings"
	}
	if namespace == "" {
		namespace = "(unknown)"
	}
	text := resource + " in namespace " + printable(namespace)
	if l.Cluster != "" {
		text += " (uid " + printable(l.Cluster) + ")"
	}
	if l.Shadow {
		text += ", of a shadow"
	}
	return text
}

// printable replaces everything but printable ASCII, since a record that others wrote could control the
// reader's terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text)
}

// maxLandscape bounds the text of a record, and maxLandscapeField each of its fields, in
// bytes: names of Kubernetes have at most 253.
const (
	maxLandscape      = 4096
	maxLandscapeField = 253
)

// ErrNoLandscape means that a record does not name a landscape: another program wrote it, or it is damaged.
var ErrNoLandscape = errors.New("it is no record of a landscape")

// ParseLandscape parses a record that Text returned. It ignores unknown fields: a newer version may have
// written them. Every error wraps ErrNoLandscape.
func ParseLandscape(text string) (Landscape, error) {
	if len(text) > maxLandscape {
		return Landscape{}, fmt.Errorf("%w: it has %d bytes", ErrNoLandscape, len(text))
	}
	var l Landscape
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		return Landscape{}, fmt.Errorf("%w: %w", ErrNoLandscape, err)
	}
	return l, l.Check()
}

// Check returns nil if the landscape can be recorded, else an error that wraps ErrNoLandscape.
func (l Landscape) Check() error {
	if l.Namespace == "" || l.Resource == "" {
		return fmt.Errorf("%w: it needs a namespace and a resource", ErrNoLandscape)
	}
	for _, field := range []string{l.Cluster, l.Namespace, l.Resource} {
		if len(field) > maxLandscapeField {
			return fmt.Errorf("%w: a field has %d bytes", ErrNoLandscape, len(field))
		}
	}
	return nil
}

// Text returns the record as one line of JSON.
func (l Landscape) Text() string {
	text, err := json.Marshal(l)
	if err != nil { // impossible: the fields are strings and a boolean
		panic(err)
	}
	return string(text)
}

// Place is a landscape and where it was read.
type Place struct {
	At        string // such as "Redis at redis://127.0.0.1:6379", without passwords
	Landscape Landscape
}

// String names the place and its landscape.
func (p Place) String() string { return p.At + " belongs to " + p.Landscape.String() }

// ForeignError means that two of Redis, NATS and Gardener belong to different landscapes, or that the record
// of one cannot be read. A function that returns it has changed nothing.
type ForeignError struct {
	Found, Own Place
	Err        error // why the record of Found cannot be read, nil if it was read
}

// Error names both landscapes and where each was read, or the record that cannot be read. It ends with what
// to do.
func (e *ForeignError) Error() string {
	const todo = "nothing was changed; correct the address, gardener.namespace or gardener.resource" +
		" (hapctl landscape show tells what each belongs to), or, where the landscape was moved on purpose, run hapctl landscape adopt"
	if e.Err != nil {
		return fmt.Sprintf("what %s has recorded as its landscape cannot be read: %v; %s", e.Found.At, e.Err, todo)
	}
	return fmt.Sprintf("two landscapes: %s, but %s; %s", e.Found, e.Own, todo)
}

// Unwrap returns the cause, if there is one.
func (e *ForeignError) Unwrap() error { return e.Err }

// OneLandscape returns nil if both places may belong to one landscape, or if found has no record (recorded is
// false). Otherwise it returns a ForeignError. err is the error of reading found: OneLandscape returns it
// unchanged unless it wraps ErrNoLandscape.
func OneLandscape(own, found Place, recorded bool, err error) error {
	switch {
	case errors.Is(err, ErrNoLandscape):
		return &ForeignError{Found: found, Own: own, Err: err}
	case err != nil:
		return err
	case recorded && !found.Landscape.Same(own.Landscape):
		return &ForeignError{Found: found, Own: own}
	}
	return nil
}
