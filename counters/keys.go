package counters

import (
	"strings"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
)

// DefaultPrefix begins every key.
const DefaultPrefix = "hap"

// bucketPrefix begins the names of the directory's buckets; no pool's name has a colon.
const bucketPrefix = "rt:"

// tag is the hash tag that keeps the keys of a pool or bucket on one slot.
func (s *Store) tag(place string) string {
	if !isBucket(place) {
		place = engine.Token(place)
	}
	return s.prefix + ":{" + place + "}:"
}

func isBucket(place string) bool { return strings.HasPrefix(place, bucketPrefix) }

func (s *Store) metaKey(place string) string { return s.tag(place) + "meta" }

// poolKeys are the KEYS of every script on a pool, in the order of the prelude.
func (s *Store) poolKeys(pool string) []string {
	tag := s.tag(pool)
	return []string{tag + "meta", tag + "b", tag + "r", tag + "t", tag + "u", tag + "w", tag + "q"}
}

// bucketKeys are the KEYS of every script on a bucket: its meta and its entries.
func (s *Store) bucketKeys(bucket string) []string {
	tag := s.tag(bucket)
	return []string{tag + "meta", tag + "d"}
}

func (s *Store) directoryKeys(runtime string) []string {
	return s.bucketKeys(account.BucketOf(runtime))
}

// stagingKeys are where a rebuild under token puts what it will install; they
// belong to no other rebuild and vanish by themselves.
func (s *Store) stagingKeys(place, token string) []string {
	tag := s.tag(place) + "n:" + token + ":"
	if isBucket(place) {
		return []string{tag + "d"}
	}
	return []string{tag + "b", tag + "r", tag + "t", tag + "w"}
}
