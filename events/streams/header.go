package streams

import "strings"

// StatusHeader is the header of the server's control messages. A reader of the jetstream library skips a message
// without data that has it.
const StatusHeader = "Status"

// Publishable reports whether the client library publishes a header with this name. Servers take any name.
func Publishable(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
}
