package events

import (
	"strings"
)

const (
	// maxMergeBytes bounds the paths and values of a merge patch, since NATS bounds the reply that has it.
	maxMergeBytes = 16 << 10
	// maxMergeDepth bounds the names in a path: every name but the last becomes an object.
	maxMergeDepth = 64
)

// pointerNames reads a token of a JSON pointer as a name.
var pointerNames = strings.NewReplacer("~1", "/", "~0", "~")

// MergePatch returns the RFC 7386 merge patch that sets the same values as the operations of a Shoot
// patch. Unlike the operations it applies to every manifest, because it creates missing parent
// objects. It returns nil if there are no operations, if an operation is not the add of a string, if
// paths and values have more than 16 KiB, or if a path has more than 64 names, names the whole manifest,
// has a list position (a merge patch replaces lists as a whole), or leads below the path of an earlier
// operation's string.
func MergePatch(operations []PatchOperation) map[string]any {
	patch := map[string]any{}
	size := 0
	for _, o := range operations {
		value, text := o.Value.(string)
		if size += len(o.Path) + len(value); o.Op != "add" || !text || size > maxMergeBytes || !merge(patch, o.Path, value) {
			return nil
		}
	}
	if len(patch) == 0 {
		return nil
	}
	return patch
}

// merge sets the value at a JSON pointer in patch. It returns false if a merge patch cannot express that; patch
// may then have additional empty objects.
func merge(patch map[string]any, pointer, value string) bool {
	rest, ok := strings.CutPrefix(pointer, "/")
	if !ok || strings.Count(rest, "/") >= maxMergeDepth {
		return false
	}
	for {
		token, below, more := strings.Cut(rest, "/")
		if listPosition(token) {
			return false
		}
		name := pointerNames.Replace(token)
		if !more {
			patch[name] = value
			return true
		}
		inner, ok := patch[name].(map[string]any)
		if !ok {
			if _, taken := patch[name]; taken {
				return false
			}
			inner = map[string]any{}
			patch[name] = inner
		}
		patch, rest = inner, below
	}
}

// listPosition reports whether a token is "-" or a number, and so would be a position if the pointer led to a
// list. Whether it leads to a list or to an object with a member of that name, the token does not say.
func listPosition(token string) bool {
	if token == "-" || token == "0" {
		return true
	}
	for i := range len(token) {
		if token[i] < '0' || token[i] > '9' {
			return false
		}
	}
	return token != "" && token[0] != '0'
}
