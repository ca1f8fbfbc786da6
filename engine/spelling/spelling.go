// Package spelling suggests the known word for a misspelled one, and finds characters that look like others.
package spelling

import "strings"

// most is the largest edit distance between a word and its suggestion.
const most = 2

// Closest returns the known word with the smallest edit distance to word, the first of several. It returns ""
// if that distance is above two or not below the length of word. It ignores letter case.
func Closest(word string, known []string) string {
	best, least := "", min(most+1, len(word))
	for _, candidate := range known {
		if n := edits(strings.ToLower(word), strings.ToLower(candidate)); n < least {
			best, least = candidate, n
		}
	}
	return best
}

// edits returns the number of bytes to insert, remove or replace to turn a into b.
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
