package plans

import (
	"slices"
	"strconv"

	"github.com/hap-worker/hap-worker/engine/account"
)

// Directories are the buckets that the runtimes of histories are in. The others stay empty, and are left out
// of the simulation.
var Directories = []string{account.BucketName(0), account.BucketName(1)}

// Runtimes are ids of runtimes in those buckets.
var Runtimes = func() (ids []string) {
	for n := 0; len(ids) < 120; n++ {
		if id := "rt-" + strconv.Itoa(n); !Silent(account.BucketOf(id)) {
			ids = append(ids, id)
		}
	}
	return ids
}()

// Silent reports whether a place is a bucket that no runtime of a history is in.
func Silent(place string) bool {
	return account.IsBucket(place) && !slices.Contains(Directories, place)
}

// Heard returns the places without the silent buckets.
func Heard(places []string) []string { return slices.DeleteFunc(slices.Clone(places), Silent) }

// BucketOf is the bucket of a runtime in the directory, as a list of places.
func BucketOf(runtime string) []string { return []string{account.BucketOf(runtime)} }
