package rebuild

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/worker/memory"
)

// TestBucketIsNotBuiltAlone: if one bucket of the directory is lost or not in force, all other places are
// rebuilt with it. A pool that this worker does not know loses its epoch in the record, and is rebuilt when a
// request needs it.
func TestBucketIsNotBuiltAlone(t *testing.T) {
	t.Parallel()
	for name, install := range map[string]bool{"not in force": true, "lost": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				newRebuilder, record := fenced(t)
				redis := servers{memory.NewCounters()}
				first := newRebuilder(redis)
				first.Wanted("gcp")
				if err := first.Ensure(t.Context()); err != nil {
					t.Fatal(err)
				}
				before, err := record.Epochs(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				bucket, late := account.BucketName(7), account.FencedEpoch("late")
				if ok, err := redis.Depose(t.Context(), bucket, before.Epochs[bucket]); !ok || err != nil {
					t.Fatal(ok, err)
				}
				if install { // a paused rebuild goes on, under an epoch that is not in force
					ours, err := redis.BeginRebuild(t.Context(), bucket, late, time.Now(), 0)
					built, failed := redis.InstallBucket(t.Context(), bucket, late, account.Directory{})
					if !ours || !built || errors.Join(err, failed) != nil {
						t.Fatal(ours, built, err, failed)
					}
				}
				second := newRebuilder(redis) // knows aws alone
				if err := second.Ensure(t.Context()); err != nil {
					t.Fatal(err)
				}
				now, err := record.Epochs(t.Context())
				if err != nil || len(now.Epochs) != account.Buckets+2 {
					t.Fatal(len(now.Epochs), err)
				}
				for place, inForce := range now.Epochs {
					built, err := redis.Epochs(t.Context(), place)
					if err != nil || inForce == before.Epochs[place] || (built[place] == inForce) != (place != "gcp") {
						t.Errorf("%s is built as %q, was %q, in force is %q, %v", place, built[place], before.Epochs[place], inForce, err)
					}
				}
				second.Wanted("gcp")
				if err := second.Ensure(t.Context()); err != nil {
					t.Fatal(err)
				}
				built, err := redis.Epochs(t.Context(), "gcp")
				after, unread := record.Epochs(t.Context())
				if built["gcp"] != after.Epochs["gcp"] || after.Epochs["aws"] != now.Epochs["aws"] || errors.Join(err, unread) != nil {
					t.Errorf("gcp is built as %q, in force is %q, aws was %q and is %q", built["gcp"], after.Epochs["gcp"], now.Epochs["aws"], after.Epochs["aws"])
				}
			})
		})
	}
}
