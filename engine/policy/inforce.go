package policy

import "time"

// InForce says by which policy a worker decides.
type InForce struct {
	Worker string
	Digest string    // of its text; "" for no policy
	Since  time.Time // when the worker took it over
	Seen   time.Time // when the worker last said so
}
