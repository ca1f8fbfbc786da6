package account

import "strings"

// Runtime.Request lists the requests that a runtime is assigned by, separated by spaces, the request that
// made the assignment first. A request that gets another answer is removed, and with the last one the
// assignment (rule 11). If there are more than mostRequests, anybody stands for the others: then the
// assignment stays.
const (
	mostRequests = 8
	anybody      = "*"
)

// withRequest adds a request to the list. It returns the list unchanged if it has the request or anybody
// already. If the list has mostRequests, it adds anybody in place of the request.
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

// withoutRequest removes a request from the list, and reports whether it was there.
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

// FirstRequest returns the request by which the runtime waits, waited or was refused, or the first of those that it
// is assigned by; "" if the record names none.
func (rt Runtime) FirstRequest() string {
	first, _, _ := strings.Cut(rt.Request, " ")
	return first
}
