package account

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
)

// Buckets is the number of buckets of the directory of runtimes. Each has a separate epoch and sequence.
const Buckets = 64

// BucketOf returns the name of the directory's bucket for a runtime: rt:00 to rt:63. No pool has such a name,
// since a label value has no colon.
func BucketOf(runtime string) string { return BucketName(bucketOf(runtime)) }

func bucketOf(runtime string) int {
	h := fnv.New32a()
	h.Write([]byte(runtime))
	return int(h.Sum32() % Buckets)
}

// BucketName returns the name of the n-th bucket, from 0.
func BucketName(n int) string { return bucketNames[n] }

var bucketNames = func() (names [Buckets]string) {
	for n := range names {
		names[n] = fmt.Sprintf("%s%02d", bucketPrefix, n)
	}
	return names
}()

const bucketPrefix = "rt:"

// IsBucket reports whether the name has the form of a bucket's name, which no pool has.
func IsBucket(name string) bool { return strings.HasPrefix(name, bucketPrefix) }

// Bucket is one part of the directory that says which pool a runtime is in, so
// that a deprovision finds it and a provision whose rule now names another pool
// stays where the runtime is (I10).
type Bucket struct {
	site
	places map[string]Place
}

// NewBucket returns a bucket that is not built.
func NewBucket() *Bucket { return &Bucket{places: map[string]Place{}} }

// Locate returns the runtime's place for a provision. A runtime without a place gets pool. The place of a
// runtime that was deprovisioned before it had a pool is Gone: its provision is superseded under the place's
// sequence. It may return ErrNotBuilt.
func (b *Bucket) Locate(runtime, pool string) (Place, error) {
	if b.epoch == "" {
		return Place{}, ErrNotBuilt
	}
	if place, known := b.asked(runtime); known {
		return place, nil
	}
	b.places[runtime] = Place{Pool: pool}
	return b.places[runtime], nil
}

// asked returns the runtime's place, and whether it has one. A place that was asked for is not tentative any more.
func (b *Bucket) asked(runtime string) (Place, bool) {
	place, known := b.places[runtime]
	if place.Tentative {
		place.Tentative = false
		b.places[runtime] = place
	}
	return place, known
}

// Depart returns the runtime's place: a deprovision releases it in that pool. If it has no place, Depart adds one that
// is Gone. It may return ErrNotBuilt.
func (b *Bucket) Depart(runtime string) (Place, error) {
	if b.epoch == "" {
		return Place{}, ErrNotBuilt
	}
	if place, known := b.asked(runtime); known {
		return place, nil
	}
	b.places[runtime] = Place{Gone: true, Sequence: b.next()}
	return b.places[runtime], nil
}

// Place returns the runtime's entry without adding one, and whether there is one.
func (b *Bucket) Place(runtime string) (Place, bool) {
	place, known := b.places[runtime]
	return place, known
}

// Places returns all entries, sorted by runtime.
func (b *Bucket) Places() []NamedPlace {
	places := make([]NamedPlace, 0, len(b.places))
	for _, runtime := range slices.Sorted(maps.Keys(b.places)) {
		places = append(places, NamedPlace{Runtime: runtime, Place: b.places[runtime]})
	}
	return places
}

// BeginForgetting replaces the runtime's entry by a tentative one with the next sequence, if it still is the one that
// was read, which is the zero Place for none. It returns the tentative entry, or the zero Place if it has replaced
// none. It may return ErrNotBuilt.
func (b *Bucket) BeginForgetting(runtime string, was Place) (Place, error) {
	if b.epoch == "" {
		return Place{}, ErrNotBuilt
	}
	if b.places[runtime] != was {
		return Place{}, nil
	}
	b.places[runtime] = Place{Gone: true, Sequence: b.next(), Tentative: true}
	return b.places[runtime], nil
}

// Forget deletes the runtime's entry if it still is place, and reports whether it did. It may return
// ErrNotBuilt.
func (b *Bucket) Forget(runtime string, place Place) (bool, error) {
	if b.epoch == "" {
		return false, ErrNotBuilt
	}
	if was, known := b.places[runtime]; !known || was != place {
		return false, nil
	}
	delete(b.places, runtime)
	return true, nil
}

// Install replaces the bucket's entries by d (rule 13e) if the bucket is not built and its rebuild is still
// the token's; otherwise it changes nothing. It reports whether this call or an earlier one with the token
// built the bucket.
func (b *Bucket) Install(token string, d Directory) bool {
	fresh, installed := b.install(token, d.Sequence)
	if fresh {
		b.places = map[string]Place{}
		maps.Copy(b.places, d.Places)
	}
	return installed
}

// Move replaces the runtime's place by to if it still is from, and reports whether it did (rule 16). It may
// return ErrNotBuilt.
func (b *Bucket) Move(runtime string, from, to Place) (bool, error) {
	if b.epoch == "" {
		return false, ErrNotBuilt
	}
	if was, known := b.places[runtime]; !known || was != from {
		return false, nil
	}
	b.places[runtime] = to
	return true, nil
}

// Status summarizes the bucket.
func (b *Bucket) Status() Status {
	return Status{Built: b.epoch != "", Epoch: b.epoch, Sequence: b.sequence, Runtimes: len(b.places)}
}

// Clone returns an independent copy.
func (b *Bucket) Clone() *Bucket {
	clone := *b
	clone.places = maps.Clone(b.places)
	return &clone
}
