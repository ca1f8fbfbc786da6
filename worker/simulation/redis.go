package simulation

import (
	"context"
	"iter"
	"maps"
	"time"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/worker/memory"
	"github.com/hap-worker/hap-worker/worker/simulation/gate"
	"github.com/hap-worker/hap-worker/worker/simulation/plans"
	"github.com/hap-worker/hap-worker/worker/simulation/servers"
)

// store is Redis as one process sees it.
type store struct{ p *process }

func (s store) at() *memory.Counters { return s.p.redis.Load().Counters }

func scripted[T any](ctx context.Context, s store, op, arg string, do func(context.Context, *memory.Counters) (T, error)) (T, error) {
	return ask(ctx, s.p, call{Port: gate.Redis, Op: op, Arg: arg}, func(ctx context.Context) (T, error) { return do(ctx, s.at()) })
}

// decided is scripted for operations whose results have effects outside of Redis. It returns an error if the epochs
// that the places had at the call are not in force (rule 15), unless the operation is account.Contained.
func decided[T any](
	ctx context.Context, s store, op, arg string, places []string, do func(context.Context, *memory.Counters) (T, error),
) (T, error) {
	var epochs account.Epochs
	out, err := scripted(ctx, s, op, arg, func(ctx context.Context, c *memory.Counters) (T, error) {
		out, err := do(ctx, c)
		epochs, _ = c.Epochs(ctx, places...)
		return out, err
	})
	if err != nil || account.Contained(op) {
		return out, err
	}
	return out, s.p.inForce(ctx, op+" "+arg, epochs)
}

func (s store) Locate(ctx context.Context, runtime, pool string) (account.Place, error) {
	return decided(ctx, s, "locate", runtime, plans.BucketOf(runtime), func(ctx context.Context, c *memory.Counters) (account.Place, error) {
		return c.Locate(ctx, runtime, pool)
	})
}

func (s store) Place(ctx context.Context, runtime string) (account.Place, error) {
	return decided(ctx, s, "place", runtime, plans.BucketOf(runtime), func(ctx context.Context, c *memory.Counters) (account.Place, error) { return c.Place(ctx, runtime) })
}

func (s store) Status(ctx context.Context, place string) (account.Status, error) {
	return scripted(ctx, s, "status", place, func(ctx context.Context, c *memory.Counters) (account.Status, error) { return c.Status(ctx, place) })
}

func (s store) Assign(ctx context.Context, pool string, r account.Request) (account.Decision, error) {
	return decided(ctx, s, opAssign, r.Runtime, []string{pool}, func(ctx context.Context, c *memory.Counters) (account.Decision, error) {
		return s.p.world.assigned(pool, r)(c.Assign(ctx, pool, s.p.world.asked(r)))
	})
}

func (s store) LocateAndAssign(ctx context.Context, pool string, r account.Request) (account.Decision, error) {
	return decided(ctx, s, opLocateAndAssign, r.Runtime, append(plans.BucketOf(r.Runtime), pool), func(ctx context.Context, c *memory.Counters) (account.Decision, error) {
		if s.p.world.off("half") && s.p.world.gate.IsDown(nil, gate.RedisWrites) {
			return c.Assign(ctx, pool, s.p.world.asked(r))
		}
		return s.p.world.assigned(pool, r)(c.LocateAndAssign(ctx, pool, s.p.world.asked(r)))
	})
}

func (s store) Refuse(ctx context.Context, place account.Place, runtime, request, tenant string) (account.Decision, error) {
	return decided(ctx, s, "refuse", runtime, []string{place.Pool}, func(ctx context.Context, c *memory.Counters) (account.Decision, error) {
		return c.Refuse(ctx, place, runtime, request, tenant)
	})
}

func (s store) Leave(ctx context.Context, place account.Place, runtime, request, tenant string) (sequence int64, left bool, err error) {
	if s.p.world.off("follow") { // without rule 16: the runtime stays in the pool where it began to wait
		return 0, false, nil
	}
	_, err = decided(ctx, s, "leave", runtime+" "+place.Pool, []string{place.Pool}, func(ctx context.Context, c *memory.Counters) (any, error) {
		sequence, left, err = c.Leave(ctx, place, runtime, request, tenant)
		return nil, err
	})
	return sequence, left, err
}

func (s store) MovePlace(ctx context.Context, runtime string, from, to account.Place) (bool, error) {
	return decided(ctx, s, "move place", runtime+" to "+to.Pool, plans.BucketOf(runtime), func(ctx context.Context, c *memory.Counters) (bool, error) {
		return c.MovePlace(ctx, runtime, from, to)
	})
}

func (s store) TakeBack(ctx context.Context, pool, runtime, request, tenant string) error {
	_, err := scripted(ctx, s, "take back", runtime, func(ctx context.Context, c *memory.Counters) (any, error) {
		if s.p.world.off("take-back") {
			return nil, nil
		}
		return nil, c.TakeBack(ctx, pool, runtime, request, tenant)
	})
	return err
}

func (s store) Confirm(ctx context.Context, pool string, claim account.Claim) (bool, error) {
	return scripted(ctx, s, "confirm", claim.Runtime+" on "+claim.Binding, func(ctx context.Context, c *memory.Counters) (bool, error) {
		ok, err := c.Confirm(ctx, pool, claim)
		return ok || s.p.world.off("confirm"), err
	})
}

func (s store) Revoke(ctx context.Context, pool string, claim account.Claim) (bool, error) {
	return scripted(ctx, s, "revoke", claim.Runtime+" on "+claim.Binding, func(ctx context.Context, c *memory.Counters) (bool, error) {
		if s.p.world.off("revoke") {
			return true, nil
		}
		return c.Revoke(ctx, pool, claim)
	})
}

func (s store) Depart(ctx context.Context, runtime string) (account.Place, error) {
	return decided(ctx, s, "depart", runtime, plans.BucketOf(runtime), func(ctx context.Context, c *memory.Counters) (account.Place, error) { return c.Depart(ctx, runtime) })
}

func (s store) ReleaseRuntime(ctx context.Context, place account.Place, runtime, tenant string) (account.Departure, error) {
	return decided(ctx, s, "release runtime", runtime, []string{place.Pool}, func(ctx context.Context, c *memory.Counters) (account.Departure, error) {
		if s.p.world.off("owner") { // without rule 7: any tenant may release the runtime
			tenant = ""
		}
		return c.ReleaseRuntime(ctx, place, runtime, tenant)
	})
}

func (s store) ReleaseUnknown(ctx context.Context, place account.Place, runtime, tenant string) (account.Departure, error) {
	return decided(ctx, s, "release runtime", runtime, []string{place.Pool}, func(ctx context.Context, c *memory.Counters) (account.Departure, error) {
		return c.ReleaseUnknown(ctx, place, runtime, tenant)
	})
}

func (s store) BeginDirtying(ctx context.Context, pool, binding string, generation int64) (account.Permit, error) {
	return decided(ctx, s, "begin dirtying", binding, []string{pool}, func(ctx context.Context, c *memory.Counters) (account.Permit, error) {
		permit, err := c.BeginDirtying(ctx, pool, binding, generation)
		if s.p.world.off("dirtying") {
			permit.Given = true
		}
		return permit, err
	})
}

func (s store) InUse(ctx context.Context, pool, binding string) (int, error) {
	return decided(ctx, s, "in use", binding, []string{pool}, func(ctx context.Context, c *memory.Counters) (int, error) {
		if s.p.world.off("in-use") {
			return 0, nil
		}
		return c.InUse(ctx, pool, binding)
	})
}

func (s store) MarkFreed(ctx context.Context, pool, binding string, generation int64) (bool, error) {
	return scripted(ctx, s, "mark freed", binding, func(ctx context.Context, c *memory.Counters) (bool, error) {
		if s.p.world.off("freed-generation") {
			rec, _ := c.Binding(ctx, pool, binding)
			generation = rec.Generation
		}
		freed, err := c.MarkFreed(ctx, pool, binding, generation)
		if freed && s.p.world.inForce(s.p.redis.Load(), pool) { // another master's record counts for nothing (rule 15)
			s.p.world.markedFreed(pool, binding)
		}
		return freed, err
	})
}

func (s store) Queue(ctx context.Context, pool string) ([]account.Waiter, error) {
	return scripted(ctx, s, "queue", pool, func(ctx context.Context, c *memory.Counters) ([]account.Waiter, error) { return c.Queue(ctx, pool) })
}

func (s store) Heads(ctx context.Context, pool string, most int) (account.Heads, error) {
	return scripted(ctx, s, "heads", pool, func(ctx context.Context, c *memory.Counters) (account.Heads, error) { return c.Heads(ctx, pool, most) })
}

func (s store) Observe(ctx context.Context, pool string, l account.Label) (account.Observation, error) {
	return scripted(ctx, s, "observe", l.Binding, func(ctx context.Context, c *memory.Counters) (account.Observation, error) {
		if s.p.world.off("observe") {
			return account.Observation{}, nil
		}
		return c.Observe(ctx, pool, l)
	})
}

func (s store) Doubt(ctx context.Context, pool, binding string, generation int64) (bool, error) {
	return scripted(ctx, s, "doubt", binding, func(ctx context.Context, c *memory.Counters) (bool, error) {
		return c.Doubt(ctx, pool, binding, generation)
	})
}

func (s store) Pools(ctx context.Context) ([]string, error) {
	return scripted(ctx, s, "pools", "", func(ctx context.Context, c *memory.Counters) ([]string, error) { return c.Pools(ctx) })
}

func (s store) Bindings(ctx context.Context, pool string) iter.Seq2[account.NamedRecord, error] {
	return listed(ctx, s, "bindings", pool, (*memory.Counters).Bindings)
}

func (s store) Runtimes(ctx context.Context, pool string) iter.Seq2[account.NamedRuntime, error] {
	return listed(ctx, s, "runtimes", pool, (*memory.Counters).Runtimes)
}

func (s store) Places(ctx context.Context, bucket string) iter.Seq2[account.NamedPlace, error] {
	if plans.Silent(bucket) {
		return func(func(account.NamedPlace, error) bool) {}
	}
	return listed(ctx, s, "places", bucket, (*memory.Counters).Places)
}

func listed[T any](
	ctx context.Context, s store, op, arg string, list func(*memory.Counters, context.Context, string) iter.Seq2[T, error],
) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		all, err := scripted(ctx, s, op, arg, func(ctx context.Context, c *memory.Counters) ([]T, error) {
			var all []T
			for one, err := range list(c, ctx, arg) {
				if err != nil {
					return nil, err
				}
				all = append(all, one)
			}
			return all, nil
		})
		if err != nil {
			var none T
			yield(none, err)
			return
		}
		for _, one := range all {
			if !yield(one, nil) {
				return
			}
		}
	}
}

func (s store) RuntimeIn(ctx context.Context, pool, id string) (account.Runtime, error) {
	return decided(ctx, s, "runtime", id, []string{pool}, func(ctx context.Context, c *memory.Counters) (account.Runtime, error) {
		return c.RuntimeIn(ctx, pool, id)
	})
}

func (s store) Binding(ctx context.Context, pool, binding string) (account.Record, error) {
	return decided(ctx, s, "binding", binding, []string{pool}, func(ctx context.Context, c *memory.Counters) (account.Record, error) {
		return c.Binding(ctx, pool, binding)
	})
}

func (s store) Forget(ctx context.Context, pool, runtime string, sequence int64) (bool, error) {
	return scripted(ctx, s, "forget", runtime, func(ctx context.Context, c *memory.Counters) (bool, error) {
		return c.Forget(ctx, pool, runtime, sequence)
	})
}

func (s store) BeginForgetting(ctx context.Context, runtime string, was account.Place) (account.Place, error) {
	return scripted(ctx, s, "begin forgetting", runtime, func(ctx context.Context, c *memory.Counters) (account.Place, error) {
		return c.BeginForgetting(ctx, runtime, was)
	})
}

func (s store) ForgetPlace(ctx context.Context, runtime string, place account.Place) (bool, error) {
	return scripted(ctx, s, "forget place", runtime, func(ctx context.Context, c *memory.Counters) (bool, error) {
		return c.ForgetPlace(ctx, runtime, place)
	})
}

func (s store) Recount(ctx context.Context, pool, binding string) (bool, error) {
	return scripted(ctx, s, "recount", binding, func(ctx context.Context, c *memory.Counters) (bool, error) { return c.Recount(ctx, pool, binding) })
}

func (s store) Restore(ctx context.Context, pool, runtime string, was, rt account.Runtime, should account.Record) (bool, error) {
	return scripted(ctx, s, "restore", runtime, func(ctx context.Context, c *memory.Counters) (bool, error) {
		return c.Restore(ctx, pool, runtime, was, rt, should)
	})
}

func (s store) ReleaseUnchanged(ctx context.Context, pool, runtime string, was account.Runtime) (bool, error) {
	return scripted(ctx, s, "release unchanged", runtime, func(ctx context.Context, c *memory.Counters) (bool, error) {
		return c.ReleaseUnchanged(ctx, pool, runtime, was)
	})
}

func (s store) DropAdopted(ctx context.Context, pool, rt, on string) (bool, error) {
	return scripted(ctx, s, "drop adopted", rt, func(ctx context.Context, c *memory.Counters) (bool, error) { return c.DropAdopted(ctx, pool, rt, on) })
}

func (s store) DrainIdle(ctx context.Context, pool, name string, g int64) (bool, error) {
	return scripted(ctx, s, "drain idle", name, func(ctx context.Context, c *memory.Counters) (bool, error) { return c.DrainIdle(ctx, pool, name, g) })
}

func (s store) Raise(ctx context.Context, pool string, sequence int64) (bool, error) {
	return scripted(ctx, s, "raise", pool, func(ctx context.Context, c *memory.Counters) (bool, error) { return c.Raise(ctx, pool, sequence) })
}

func (s store) Built(ctx context.Context, places ...string) (map[string]bool, error) {
	return scripted(ctx, s, opBuilt, "", func(ctx context.Context, c *memory.Counters) (map[string]bool, error) {
		built, err := c.Built(ctx, plans.Heard(places)...)
		for _, place := range places {
			if err == nil && plans.Silent(place) {
				built[place] = true
			}
		}
		return built, err
	})
}

func (s store) Epochs(ctx context.Context, places ...string) (account.Epochs, error) {
	return scripted(ctx, s, opBuilt, "", func(ctx context.Context, c *memory.Counters) (account.Epochs, error) {
		known, err := c.Epochs(ctx, plans.Heard(places)...)
		if err != nil {
			return nil, err
		}
		epochs := make(account.Epochs, len(places))
		maps.Copy(epochs, known)
		for _, place := range places {
			if plans.Silent(place) {
				epochs[place] = servers.AlwaysBuilt // so that no rebuild starts for them
			}
		}
		return epochs, nil
	})
}

// placed is scripted for operations of a rebuild on a place. For a silent bucket, it calls nothing and returns true.
func placed(ctx context.Context, s store, op, place string, do func(context.Context, *memory.Counters) (bool, error)) (bool, error) {
	if plans.Silent(place) {
		return true, nil
	}
	return scripted(ctx, s, op, place, do)
}

func (s store) Depose(ctx context.Context, place, epoch string) (bool, error) {
	return placed(ctx, s, "discard", place, func(ctx context.Context, c *memory.Counters) (bool, error) {
		if s.p.world.off("depose") {
			return false, nil
		}
		return c.Depose(ctx, place, epoch)
	})
}

func (s store) Time(ctx context.Context) (time.Time, error) {
	return scripted(ctx, s, "time", "", func(ctx context.Context, c *memory.Counters) (time.Time, error) { return c.Time(ctx) })
}

func (s store) BeginRebuild(ctx context.Context, place, token string, now time.Time, lease time.Duration) (bool, error) {
	return placed(ctx, s, "begin rebuild", place, func(ctx context.Context, c *memory.Counters) (bool, error) {
		if s.p.world.off("lease") { // without rule 13 (a): the lease of a dead rebuilder does not expire
			lease = 1000 * time.Hour
		}
		return c.BeginRebuild(ctx, place, token, now, lease)
	})
}

func (s store) RenewRebuild(ctx context.Context, place, token string, now time.Time) (bool, error) {
	return placed(ctx, s, opRenew, place, func(ctx context.Context, c *memory.Counters) (bool, error) {
		return c.RenewRebuild(ctx, place, token, now)
	})
}

func (s store) Install(ctx context.Context, pool, token string, snapshot account.Snapshot) (bool, error) {
	return placed(ctx, s, opInstall, pool, func(ctx context.Context, c *memory.Counters) (bool, error) {
		return c.Install(ctx, pool, s.p.world.token(ctx, c, pool, token), s.p.world.snapshot(snapshot))
	})
}

func (s store) InstallBucket(ctx context.Context, bucket, token string, d account.Directory) (bool, error) {
	return placed(ctx, s, opInstall, bucket, func(ctx context.Context, c *memory.Counters) (bool, error) {
		return c.InstallBucket(ctx, bucket, s.p.world.token(ctx, c, bucket, token), d)
	})
}
