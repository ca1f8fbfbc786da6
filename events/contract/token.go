package contract

import (
	"fmt"
	"strconv"
	"strings"
)

// MaxID is the maximum length of a runtime, request or tenant id in bytes: ids are label values too.
const MaxID = 63

// ValidID reports whether s can be a runtime, request or tenant id:
// [A-Za-z0-9]([-A-Za-z0-9_]{0,61}[A-Za-z0-9])?, a subject token and a label
// value at once.
func ValidID(s string) bool {
	if s == "" || len(s) > MaxID {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if alphanumeric(c) {
			continue
		}
		if (c != '-' && c != '_') || i == 0 || i == len(s)-1 {
			return false
		}
	}
	return true
}

// Token writes a binding's or pool's name as one token of a subject or key:
// every byte outside [A-Za-z0-9_-] becomes =XX.
func Token(name string) string {
	clean := true
	for i := range len(name) {
		clean = clean && tokenByte(name[i])
	}
	if clean {
		return name
	}
	var b strings.Builder
	for i := range len(name) {
		if c := name[i]; tokenByte(c) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "=%02X", c)
		}
	}
	return b.String()
}

// FromToken returns the name that Token encoded; an error names the bad escape.
func FromToken(token string) (string, error) {
	if !strings.Contains(token, "=") {
		return token, nil
	}
	var b strings.Builder
	for i := 0; i < len(token); i++ {
		if token[i] != '=' {
			b.WriteByte(token[i])
			continue
		}
		if i+2 >= len(token) {
			return "", fmt.Errorf("token %q ends inside an escape", token)
		}
		c, err := strconv.ParseUint(token[i+1:i+3], 16, 8)
		if err != nil {
			return "", fmt.Errorf("token %q has a bad escape at %d", token, i)
		}
		b.WriteByte(byte(c))
		i += 2
	}
	return b.String(), nil
}

func alphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

func tokenByte(c byte) bool { return alphanumeric(c) || c == '-' || c == '_' }
