package daemon

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/hap-worker/hap-worker/counters/policies"
	"github.com/hap-worker/hap-worker/engine/policy"
	"github.com/hap-worker/hap-worker/worker/loop"
)

// policyToldEvery is how often a worker records in Redis which policy it uses.
const policyToldEvery = 15 * time.Second

// instance returns a name that distinguishes this worker from others.
func instance() string {
	host, _ := os.Hostname()
	return fmt.Sprintf("%s-%d", host, os.Getpid())
}

// tellPolicy records in Redis which policy this worker uses, every policyToldEvery and at each change. When
// ctx ends, it removes the record. Only hapctl reads the record, so an error does no harm.
func (d *daemon) tellPolicy(ctx context.Context) {
	told := policy.InForce{Worker: instance()}
	loop.Run(ctx, loop.Options{
		Every: policyToldEvery, Start: loop.AtOnce, Wake: d.policyChanged,
		Failed: func(err error, _ time.Duration) {
			d.log.Debug("could not record in Redis which policy this worker uses", "error", err)
		},
	}, func(ctx context.Context) (err error) {
		if digest := d.policies.Digest(); digest != told.Digest {
			told.Digest, told.Since = digest, time.Time{}
		}
		told, err = policies.Tell(ctx, d.parts.counters, told)
		return err
	})
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if err := policies.Forget(last, d.parts.counters, told.Worker); err != nil {
		d.log.Debug("could not remove the policy of this worker from Redis", "error", err)
	}
}

// changedPolicy makes tellPolicy record the policy at once.
func (d *daemon) changedPolicy() {
	select {
	case d.policyChanged <- struct{}{}:
	default: // a wake is pending
	}
}
