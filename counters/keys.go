package counters

import (
	"slices"
	"strings"
	"sync"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
)

// DefaultPrefix begins every key of a Store that is given no other prefix.
const DefaultPrefix = "hap"

// bucketPrefix begins the names of the directory's buckets; no pool's name has a colon.
const bucketPrefix = "rt:"

// tag returns the beginning of the keys of a pool or bucket. Its hash tag keeps them on one slot.
func (s *Store) tag(place string) string {
	if !isBucket(place) {
		place = engine.Token(place)
	}
	return s.prefix + ":{" + place + "}:"
}

func isBucket(place string) bool { return strings.HasPrefix(place, bucketPrefix) }

func (s *Store) metaKey(place string) string { return s.tag(place) + "meta" }

// poolKeys returns the keys of a pool in the order in which its scripts take them (see records).
func (s *Store) poolKeys(pool string) []string {
	return s.keys.of(pool, func() []string {
		tag := s.tag(pool)
		return []string{tag + "meta", tag + "b", tag + "r", tag + "t", tag + "u", tag + "w", tag + "q"}
	})
}

// mostKeys bounds the number of cached places: rules may derive pool names from what publishers send.
const mostKeys = 4096

// keys caches the keys of places, since every event needs them.
type keys struct {
	mu      sync.RWMutex
	byPlace map[string][]string
}

func (k *keys) of(place string, compute func() []string) []string {
	k.mu.RLock()
	known := k.byPlace[place]
	k.mu.RUnlock()
	if known != nil {
		return known
	}
	known = slices.Clip(compute())
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.byPlace == nil {
		k.byPlace = map[string][]string{}
	}
	if len(k.byPlace) < mostKeys {
		k.byPlace[strings.Clone(place)] = known
	}
	return known
}

// bucketKeys returns the keys of a bucket in the order in which its scripts take them: meta and entries.
func (s *Store) bucketKeys(bucket string) []string {
	return s.keys.of(bucket, func() []string {
		tag := s.tag(bucket)
		return []string{tag + "meta", tag + "d"}
	})
}

func (s *Store) keysOf(place string) []string {
	if isBucket(place) {
		return s.bucketKeys(place)
	}
	return s.poolKeys(place)
}

func (s *Store) directoryKeys(runtime string) []string {
	return s.bucketKeys(account.BucketOf(runtime))
}

// stagingKeys returns the keys in which a rebuild under token stages its records. No other rebuild
// uses them, and they expire.
func (s *Store) stagingKeys(place, token string) []string {
	tag := s.tag(place) + "n:" + token + ":"
	if isBucket(place) {
		return []string{tag + "d"}
	}
	return []string{tag + "b", tag + "r", tag + "t", tag + "w"}
}
