package account

import "strings"

// Requests that one runtime has been assigned by: Runtime.Request lists them, with a space
// between, the one that the assignment was made for first. A request that is answered
// otherwise goes out of it, and the assignment goes with the last (rule 11). Where there are
// more than mostRequests, anybody stands for those that are not named: then it stays.
const (
	mostRequests = 8
	anybody      = "*"
)

// withRequest adds a request.
func withRequest(requests, request string) string {
	all := strings.Fields(requests)
	for _, one := range all {
		if one == request || one == anybody {
			return requests
		}
	}
	if len(all) == mostRequests {
		request = anybody
	}
	return strings.Join(append(all, request), " ")
}

// withoutRequest takes one out, and reports whether it was in.
func withoutRequest(requests, request string) (rest string, relied bool) {
	var left []string
	for one := range strings.FieldsSeq(requests) {
		if one == request {
			relied = true
			continue
		}
		left = append(left, one)
	}
	return strings.Join(left, " "), relied
}

// FirstRequest is the one that the runtime waits, was refused or was assigned by.
func (rt Runtime) FirstRequest() string {
	first, _, _ := strings.Cut(rt.Request, " ")
	return first
}
