package daemon

import (
	"context"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"

	"github.com/hap-worker/hap-worker/worker/loop"
)

// A worker has a small heap, and with Go's default a busy one spends more than a tenth of its time on collections,
// each of which comes when the heap has grown by 100 % of what is in use. So a small heap may grow by mostGrowth
// percent, a larger one by growth bytes, but none by less than leastGrowth percent: a rebuild or an audit of a million
// runtimes uses hundreds of MB. With a limit (GOMEMLIMIT), collections come as early as the limit requires.
const (
	growth      = 128 << 20 // bytes
	mostGrowth  = 300       // percent
	leastGrowth = 100       // percent, Go's default
)

// growthAt is by how many percent a heap with that many bytes in use may grow before it is collected.
func growthAt(inUse uint64) int {
	return int(min(max(100*growth/max(inUse, 1), leastGrowth), mostGrowth))
}

// collectByUse applies growthAt after each collection from now on, unless GOGC is set.
var collectByUse = sync.OnceFunc(func() {
	if os.Getenv("GOGC") == "" {
		collected(0)
	}
})

// collected sets the growth until the next collection. It makes itself the cleanup of a value to which nothing refers,
// so the runtime calls it again after that collection.
func collected(last int) {
	inUse := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(inUse)
	next := growthAt(inUse[0].Value.Uint64())
	if next != last { // the world stops for it
		debug.SetGCPercent(next)
	}
	runtime.AddCleanup(&struct{ _ [64]byte }{}, collected, next)
}

// limitShare is the percentage of GOMEMLIMIT that the runtime may use. The chart sets GOMEMLIMIT to
// the container's limit, which also includes the program itself and the kernel's memory for it.
const limitShare = 90

// obeyLimit applies limitShare, once per process. The first rebuild needs the most memory, so this comes before it.
var obeyLimit = sync.OnceFunc(func() {
	if limit := debug.SetMemoryLimit(-1); limit < math.MaxInt64 {
		debug.SetMemoryLimit(limit / 100 * limitShare)
	}
})

// giveBackEvery is how often a worker looks whether to return free memory to the operating system. If that takes long,
// it is done less often (loop.Pace).
const giveBackEvery = time.Minute

// giveBack returns free memory to the operating system every giveBackEvery, if much is free, until ctx ends: a rebuild,
// an audit or a burst of events leaves much of it. The Go runtime alone keeps free memory up to its heap
// goal (see growthAt), although a worker is idle most of the time. Each return costs one collection.
func giveBack(ctx context.Context) {
	var pace loop.Pace
	loop.Run(ctx, loop.Options{Every: giveBackEvery}, func(context.Context) error {
		if begin := time.Now(); pace.Due() && muchIsFree() {
			debug.FreeOSMemory()
			pace.Rest(begin)
		}
		return nil
	})
}

// muchIsFree reports whether the free memory of the heap that was not returned exceeds a quarter of what is in use. The
// runtime itself collects at least every two minutes, so that what is no longer in use becomes free.
func muchIsFree() bool {
	heap := []metrics.Sample{{Name: "/memory/classes/heap/free:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(heap)
	return heap[0].Value.Uint64() > heap[1].Value.Uint64()/4
}
