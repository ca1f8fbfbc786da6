package plans

import (
	"slices"
	"strconv"

	"github.com/hap-worker/hap-worker/engine/account"
)

// Directories are the buckets that runtimes of histories are in; the others hold nothing,
// and are not worth a step.
var Directories = []string{account.BucketName(0), account.BucketName(1)}

// Runtimes are the ids of runtimes, in those buckets.
var Runtimes = func() (ids []string) {
	for n := 0; len(ids) < 120; n++ {
		if id := "rt-" + strconv.Itoa(n); !Silent(account.BucketOf(id)) {
			ids = append(ids, id)
		}
	}
	return ids
}()

// Silent reports a bucket of the directory that no runtime of a history is in.
func Silent(place string) bool {
	return account.IsBucket(place) && !slices.Contains(Directories, place)
}
