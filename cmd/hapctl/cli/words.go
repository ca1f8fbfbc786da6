package cli

import (
	"fmt"
	"strings"
)

// Dashed shows empty cells, so that columns can be cut by a program too.
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

// QuoteWord writes a value as a shell reads it.
func QuoteWord(word string) string {
	plain := func(c rune) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("-_./:@", c)
	}
	if word != "" && strings.IndexFunc(word, func(c rune) bool { return !plain(c) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// Count is a number with its noun.
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// NotNil makes an empty list [] in JSON.
func NotNil[S ~[]T, T any](list S) S {
	if list == nil {
		return S{}
	}
	return list
}

// Names are the names of a list, never nil.
func Names(list []string) []string {
	all := []string{}
	for _, name := range list {
		if name = strings.TrimSpace(name); name != "" {
			all = append(all, name)
		}
	}
	return all
}

// Numbered is a rule with its number, which the older form does not have.
func Numbered(number int, text string) string {
	if number == 0 {
		return text
	}
	return fmt.Sprintf("%d: %s", number, text)
}
