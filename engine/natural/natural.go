// Package natural orders names with numbers in them as people do.
package natural

import "cmp"

// Compare returns -1, 0 or 1 as slices.SortFunc wants it. Numbers in the names compare by their value: aws-2
// is before aws-10. The result is 0 for equal names only.
func Compare(a, b string) int {
	i, j := 0, 0
	for i < len(a) && j < len(b) {
		if !digit(a[i]) || !digit(b[j]) {
			if a[i] != b[j] {
				return cmp.Compare(a[i], b[j])
			}
			i, j = i+1, j+1
			continue
		}
		m, n := numeralOf(a[i:]), numeralOf(b[j:])
		if order := cmp.Or(cmp.Compare(len(m.digits), len(n.digits)), cmp.Compare(m.digits, n.digits)); order != 0 {
			return order
		}
		i, j = i+m.length, j+n.length
	}
	return cmp.Or(cmp.Compare(len(a)-i, len(b)-j), cmp.Compare(a, b))
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

// numeral is a number in a name.
type numeral struct {
	digits string // without leading zeros
	length int    // with them
}

func numeralOf(text string) numeral {
	zeros := 0
	for zeros < len(text) && text[zeros] == '0' {
		zeros++
	}
	end := zeros
	for end < len(text) && digit(text[end]) {
		end++
	}
	return numeral{text[zeros:end], end}
}
