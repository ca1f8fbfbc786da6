package cli

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Dashed replaces empty cells of row by "-", so that a program can also split the columns.
func Dashed(row []string) []string {
	for i, cell := range row {
		if cell == "" {
			row[i] = "-"
		}
	}
	return row
}

// Yes returns "yes", or "" for false.
func Yes(is bool) string {
	if is {
		return "yes"
	}
	return ""
}

// QuoteWord quotes a value for a shell, unless it has only letters and digits of ASCII and the characters -_./:@.
func QuoteWord(word string) string {
	plain := func(c rune) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("-_./:@", c)
	}
	if word != "" && strings.IndexFunc(word, func(c rune) bool { return !plain(c) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// Count returns a number with its noun. Unless n is 1, it appends an s to the noun.
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// NotNil returns list, or an empty list for nil: JSON then has [] instead of null.
func NotNil[S ~[]T, T any](list S) S {
	if list == nil {
		return S{}
	}
	return list
}

// Names returns the names of a list, trimmed and without empty ones; never nil.
func Names(list []string) []string {
	all := []string{}
	for _, name := range list {
		if name = strings.TrimSpace(name); name != "" {
			all = append(all, name)
		}
	}
	return all
}

// Numbered returns a rule with its number. Number 0 means the older form, which has no numbers.
func Numbered(number int, text string) string {
	if number == 0 {
		return text
	}
	return fmt.Sprintf("%d: %s", number, text)
}

// NoText returns data if it is no UTF-8, which the text of a JSON string cannot have, and otherwise nil.
func NoText(data []byte) []byte {
	if utf8.Valid(data) {
		return nil
	}
	return data
}
