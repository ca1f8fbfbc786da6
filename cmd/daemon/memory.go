package daemon

import (
	"context"
	"math"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/hap-worker/hap-worker/worker/loop"
)

// collectAt is the percentage by which the heap grows before a collection, unless GOGC sets it. A
// worker has a small heap, and with Go's default of 100 a busy worker spends more than a tenth of
// its time on collections. With a limit (GOMEMLIMIT), collections come as early as the limit
// requires.
const collectAt = 300

// limitShare is the percentage of GOMEMLIMIT that the runtime may use. The chart sets GOMEMLIMIT to
// the container's limit, which also includes the program itself and the kernel's memory for it.
const limitShare = 90

// obeyLimit applies limitShare, once per process. The first rebuild needs the most memory, so this comes before it.
var obeyLimit = sync.OnceFunc(func() {
	if limit := debug.SetMemoryLimit(-1); limit < math.MaxInt64 {
		debug.SetMemoryLimit(limit / 100 * limitShare)
	}
})

// collectLess applies collectAt. It is called after the first rebuild, whose large heap must not grow that much.
func collectLess() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(collectAt)
	}
}

// giveBackEvery is how often unused memory is returned to the operating system.
const giveBackEvery = time.Minute

// giveBack returns unused memory to the operating system every giveBackEvery until ctx ends: a rebuild,
// an audit or a burst of events leaves much of it. The Go runtime alone keeps free memory up to its heap
// goal (see collectAt), although a worker is idle most of the time. Each time costs one collection.
func giveBack(ctx context.Context) {
	loop.Run(ctx, loop.Options{Every: giveBackEvery}, func(context.Context) error {
		debug.FreeOSMemory()
		return nil
	})
}
