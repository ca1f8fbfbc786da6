package account_test

import (
	"maps"
	"testing"

	"pgregory.net/rapid"

	"github.com/hap-worker/hap-worker/engine/account"
)

// A Fate, which keeps next to nothing of the replies, says of the runtime what a rebuild makes of them.
func TestFateIsWhatARebuildMakes(t *testing.T) {
	t.Parallel()
	const id = "rt-1"
	rapid.Check(t, func(t *rapid.T) {
		g, fate := account.NewGathering(), account.Fate{}
		for range rapid.IntRange(0, 6).Draw(t, "replies") {
			a := account.Answer{
				Runtime: rapid.SampledFrom([]string{id, id, id, ""}).Draw(t, "runtime"), Request: "q",
				Pool: rapid.SampledFrom([]string{"aws", "gcp"}).Draw(t, "pool"), Sequence: rapid.Int64Range(0, 3).Draw(t, "sequence"),
				State: rapid.SampledFrom([]account.RuntimeState{
					account.RuntimeAssigned, account.RuntimeGone, account.RuntimeWaiting, account.RuntimeRefused, "",
				}).Draw(t, "state"),
				Binding: rapid.SampledFrom([]string{"b-1", "b-2", ""}).Draw(t, "binding"),
			}
			if a.State == account.RuntimeGone && rapid.Bool().Draw(t, "before it had a pool") {
				a.Pool = ""
			}
			g.Answer(a)
			fate = fate.With(a)
		}
		contents := g.Contents()
		bucket, _ := contents.Bucket(account.BucketOf(id))
		place := bucket.Places[id]
		rt := maps.Collect(contents.Pool(place.Pool).EachRuntime())[id]
		assigned, gone := rt.State == account.RuntimeAssigned, rt.State == account.RuntimeGone || place.Gone
		if fate.Assigned() != assigned || fate.Gone() != gone {
			t.Errorf("the fate is assigned %t, gone %t; the rebuild has %+v and %+v", fate.Assigned(), fate.Gone(), place, rt)
		}
	})
}
