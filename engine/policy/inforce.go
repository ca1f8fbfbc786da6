package policy

import "time"

// InForce is a worker's report of the policy by which it decides.
type InForce struct {
	Worker string
	Digest string    // of its text; "" for no policy
	Since  time.Time // when the worker began to use it
	Seen   time.Time // when the worker last reported
}
