// Package spelling finds the word that was meant, and characters that only look like those that were.
package spelling

import "strings"

// most is how many edits a word that was meant may be away.
const most = 2

// Closest returns the known word that word takes the fewest edits to become, the
// first of several; "" where each takes more than two, or as many as word is long.
// Letter case is no difference.
func Closest(word string, known []string) string {
	best, least := "", min(most+1, len(word))
	for _, candidate := range known {
		if n := edits(strings.ToLower(word), strings.ToLower(candidate)); n < least {
			best, least = candidate, n
		}
	}
	return best
}

// edits is the number of bytes to insert, remove or replace to make b of a.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
