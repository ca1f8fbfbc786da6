package view

import (
	"strconv"
)

// Figure is a count that may be unknown, for example because the pool is not built.
type Figure struct {
	N       int
	Unknown bool
}

// MarshalJSON returns null for an unknown count.
func (n Figure) MarshalJSON() ([]byte, error) {
	if n.Unknown {
		return []byte("null"), nil
	}
	return strconv.AppendInt(nil, int64(n.N), 10), nil
}

func (n Figure) String() string { return n.OfLimit(0) }

// OfLimit returns the count, with the limit unless that is 0; "–" for an unknown count.
func (n Figure) OfLimit(limit int) string {
	if n.Unknown {
		return "–"
	}
	return OfLimit(n.N, limit)
}
