package faults

import (
	"github.com/hap-worker/hap-worker/integration/faulty"
)

// chooseRedis sets the function that chooses the faults of all workers' requests to Redis.
func (r *run) chooseRedis(f func() faulty.Cut) {
	for _, redis := range r.redis {
		redis.Choose(f)
	}
}

func (r *run) toRedis(a Action) bool {
	if !r.redisBy.TryLock() {
		return false
	}
	defer r.redisBy.Unlock()
	server := r.master
	switch a.Kind {
	case RedisFailedOver, RedisTwoMasters:
		return r.failOver(a)
	case RedisLost:
		r.must(server.Lose(r.ctx))
	case RedisRewound:
		r.must(server.Remember())
		pause(r.ctx, a.For)
		r.must(server.Rewind(r.ctx))
	case RedisFlaky:
		r.injector.setRedis(redisOften)
		pause(r.ctx, a.For)
		r.injector.setRedis(redisSometimes)
	default:
		server.Kill()
		pause(r.ctx, a.For)
		r.must(server.Start(r.ctx))
	}
	return true
}

// failOver makes the other server the master, which may lack the last writes. For RedisTwoMasters, one worker
// stays with the old master for some time.
func (r *run) failOver(a Action) bool {
	var err error
	if r.other == nil {
		if r.other, err = r.master.Another(r.ctx); err != nil {
			r.must(err)
			return false
		}
		r.another = r.other
	}
	r.must(r.other.Follow(r.ctx, r.master))
	r.must(r.other.Follow(r.ctx, nil))
	r.looker.Lead(r.other.Address())
	for n, redis := range r.redis {
		if a.Kind != RedisTwoMasters || n != a.Worker {
			redis.Lead(r.other.Address())
		}
	}
	if a.Kind == RedisTwoMasters {
		pause(r.ctx, a.For)
		r.redis[a.Worker].Lead(r.other.Address())
	}
	r.must(r.master.Follow(r.ctx, r.other))
	r.master, r.other = r.other, r.master
	return true
}
