package counters

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/hap-worker/hap-worker/engine"
)

// Record is one key that another package uses, such as landscapes. It belongs to no pool or site: it
// has no epoch, and no rebuild writes it.
type Record struct {
	store *Store
	key   string
	about string
}

// Record returns the record with a name. Its key has no hash tag, so it cannot be a pool's. about
// names the record in errors.
func (s *Store) Record(name, about string) Record { return Record{s, s.prefix + ":" + name, about} }

// Run runs a script on the record, whose key is KEYS[1]. Error: an *engine.Error of Redis.
func (r Record) Run(ctx context.Context, sc *redis.Script, args ...any) ([]string, error) {
	fields, err := sc.Run(ctx, r.store.client(), []string{r.key}, args...).StringSlice()
	if err != nil {
		return nil, &engine.Error{
			Code: engine.CodeInternal, Op: r.about + " in Redis", Err: err, Hint: "check that Redis is reachable and writable",
		}
	}
	return fields, nil
}
