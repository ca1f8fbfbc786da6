package counters

import (
	"context"
	"iter"
	"time"

	"github.com/hap-worker/hap-worker/counters/script"
)

// Site is state of another package that is kept in Redis like a pool: built, lost and rebuilt as a
// whole, every change one script, all keys on one slot.
type Site struct {
	store   *Store
	name    string
	tag     string
	records []string // the names of the keys after the head
	keys    []string
}

// Site returns the site with a name, which needs a colon: no pool has one. KEYS[1] of its scripts is the head, a hash
// with the fields of a pool's meta; the keys of the records follow in their order. The head's key does not end in meta,
// so that Pools does not list the site.
func (s *Store) Site(name string, records ...string) *Site {
	site := &Site{store: s, name: name, tag: s.prefix + ":{" + name + "}:", records: records}
	site.keys = append([]string{site.tag + "head"}, site.under(site.tag)...)
	return site
}

func (site *Site) under(tag string) []string {
	keys := make([]string, len(site.records))
	for i, name := range site.records {
		keys[i] = tag + name
	}
	return keys
}

// Run runs a script on the site. Errors: account.ErrNotBuilt until the site is built, or an
// *engine.Error of Redis.
func (site *Site) Run(ctx context.Context, sc script.Script, args ...any) (*script.Reply, error) {
	return site.store.run(ctx, sc, site.name, site.keys, args...)
}

// Hash reads one of the records, which must be a hash, whether the site is built or not. number is the
// record's place among the KEYS of the scripts, from 2: KEYS[1] is the head. Hash reads page by page, so it
// may miss changes made meanwhile, and return a field twice. Error: an *engine.Error of Redis.
func (site *Site) Hash(ctx context.Context, number int) iter.Seq2[Field, error] {
	return func(yield func(Field, error) bool) {
		fields := site.store.client().HScan(ctx, site.keys[number-1], 0, "", page).Iterator()
		for fields.Next(ctx) {
			f := Field{Name: fields.Val()}
			if !fields.Next(ctx) {
				break
			}
			if f.Value = fields.Val(); !yield(f, nil) {
				return
			}
		}
		if err := fields.Err(); err != nil {
			yield(Field{}, readError(site.name, err))
		}
	}
}

// Field is an entry of a hash.
type Field struct{ Name, Value string }

// BeginRebuild is Store.BeginRebuild for the site.
func (site *Site) BeginRebuild(ctx context.Context, token string, now time.Time, lease time.Duration) (mine bool, err error) {
	return site.store.claimRebuild(ctx, site.name, site.keys[0], token, now, max(0, lease.Milliseconds()))
}

// RenewRebuild is Store.RenewRebuild for the site.
func (site *Site) RenewRebuild(ctx context.Context, token string, now time.Time) (mine bool, err error) {
	return site.store.claimRebuild(ctx, site.name, site.keys[0], token, now, -1)
}

// Install is Store.Install for the site. It needs a part for each of the records, in their order.
func (site *Site) Install(ctx context.Context, token string, parts []Part) (bool, error) {
	to := target{site.name, site.keys[0], site.keys[1:], site.under(site.tag + "n:" + token + ":"), nil}
	return site.store.install(ctx, to, token, 0, parts)
}

// Discard is Store.Discard for the site.
func (site *Site) Discard(ctx context.Context) (bool, error) { return site.Depose(ctx, "") }

// Depose is Store.Depose for the site.
func (site *Site) Depose(ctx context.Context, epoch string) (bool, error) {
	return site.store.discard(ctx, site.name, site.keys[0], epoch)
}

// Epoch returns the epoch of the site, in force or not; "" if it is not built. Error: an *engine.Error
// of Redis.
func (site *Site) Epoch(ctx context.Context) (string, error) {
	epochs, err := site.store.epochs(ctx, map[string][]string{site.name: site.keys})
	return epochs[site.name], err
}
