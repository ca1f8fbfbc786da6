package view

import (
	"strconv"
)

// Figure is a count that may not be known, as where the pool is not built.
type Figure struct {
	N       int
	Unknown bool
}

// MarshalJSON writes null for what is not known.
func (n Figure) MarshalJSON() ([]byte, error) {
	if n.Unknown {
		return []byte("null"), nil
	}
	return strconv.AppendInt(nil, int64(n.N), 10), nil
}

func (n Figure) String() string { return n.OfLimit(0) }

// OfLimit is the number with the limit that it is held against, 0 for none.
func (n Figure) OfLimit(limit int) string {
	if n.Unknown {
		return "–"
	}
	return OfLimit(n.N, limit)
}
