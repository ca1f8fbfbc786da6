package policy

import "time"

// InForce is a worker's report of the policy by which it decides.
type InForce struct {
	Worker string
	Digest string    // of its text; "" for no policy
	Since  time.Time // when the worker took it over
	Seen   time.Time // when the worker last said so
}
