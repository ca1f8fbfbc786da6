package counters

import (
	"slices"
	"strings"
	"sync"

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
	return s.keys.of(pool, func() []string {
		tag := s.tag(pool)
		return []string{tag + "meta", tag + "b", tag + "r", tag + "t", tag + "u", tag + "w", tag + "q"}
	})
}

// mostKeys bounds the places whose keys are kept: rules may make pools of what
// publishers send.
const mostKeys = 4096

// keys remembers those of places, which are asked for with every event.
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

// bucketKeys are the KEYS of every script on a bucket: its meta and its entries.
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

// stagingKeys are where a rebuild under token puts what it will install; they
// belong to no other rebuild and vanish by themselves.
func (s *Store) stagingKeys(place, token string) []string {
	tag := s.tag(place) + "n:" + token + ":"
	if isBucket(place) {
		return []string{tag + "d"}
	}
	return []string{tag + "b", tag + "r", tag + "t", tag + "w"}
}
