package faults

import (
	"maps"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/hap-worker/hap-worker/integration/faulty"
)

// For how many requests in a thousand a fault is drawn, normally and during KubeFlaky and RedisFlaky.
const (
	kubeSometimes, kubeOften   = 30, 500
	redisSometimes, redisOften = 2, 60
)

// injector draws the faults of single requests, and counts them.
type injector struct {
	mu          sync.Mutex
	random      *rand.Rand
	kube, redis int // of a thousand
	done        map[string]int
}

func newInjector(seed uint64) *injector {
	return &injector{random: rand.New(rand.NewPCG(seed, 2)), kube: kubeSometimes, redis: redisSometimes, done: map[string]int{}}
}

func (i *injector) set(kube, redis int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.kube, i.redis = kube, redis
}

func (i *injector) setKube(n int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.kube = n
}

func (i *injector) setRedis(n int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.redis = n
}

func (i *injector) counts() map[string]int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return maps.Clone(i.done)
}

// kubeFaults are the faults of requests, with their names in the figures. Those with write do not strike GET requests:
// a read has no conflict, and nothing to commit.
var kubeFaults = []struct {
	name  string
	write bool
	fault faulty.Fault
}{
	{"kube 409", true, faulty.Fault{Status: http.StatusConflict}},
	{"kube 429", false, faulty.Fault{Status: http.StatusTooManyRequests, RetryAfter: 1}},
	{"kube 500", false, faulty.Fault{Status: http.StatusInternalServerError}},
	{"kube cut before", false, faulty.Fault{CutBefore: true}},
	{"kube cut after commit", true, faulty.Fault{CutAfter: true}},
	{"kube silent before", false, faulty.Fault{CutBefore: true, Hold: 6 * time.Second}},
	{"kube silent after commit", true, faulty.Fault{CutAfter: true, Hold: 6 * time.Second}},
	{"kube slow", false, faulty.Fault{Delay: 700 * time.Millisecond}},
}

func (i *injector) kubeFault(r *http.Request) faulty.Fault {
	if r.URL.Query().Get("watch") != "" {
		return faulty.Fault{} // WatchCut strikes watches
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.random.IntN(1000) >= i.kube {
		return faulty.Fault{}
	}
	chosen := kubeFaults[i.random.IntN(len(kubeFaults))]
	if chosen.write && r.Method == http.MethodGet {
		return faulty.Fault{}
	}
	i.done[chosen.name]++
	return chosen.fault
}

func (i *injector) redisCut() faulty.Cut {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch n := i.random.IntN(3000); {
	case n < 2*i.redis:
		i.done["redis reply lost"]++
		return faulty.LoseReply
	case n < 3*i.redis:
		i.done["redis request lost"]++
		return faulty.LoseRequest
	default:
		return faulty.Pass
	}
}
