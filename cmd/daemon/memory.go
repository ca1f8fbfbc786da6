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

// collectAt is by how many per cent the heap grows before it is collected, where the
// environment does not say it with GOGC: a worker has little on its heap, and with Go's
// 100 a busy one spends more than a tenth of its time on collections. Where memory is
// limited (GOMEMLIMIT) it is collected as early as the limit needs it.
const collectAt = 300

// limitShare is how much of GOMEMLIMIT the runtime may have, in per cent: the chart gives it
// the container's limit, where the program itself and what the kernel keeps for it count too.
const limitShare = 90

// tuneCollections sets both, once for the process.
var tuneCollections = sync.OnceFunc(func() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(collectAt)
	}
	if limit := debug.SetMemoryLimit(-1); limit < math.MaxInt64 {
		debug.SetMemoryLimit(limit / 100 * limitShare)
	}
})

// giveBackEvery is how often memory is given back that is not in use.
const giveBackEvery = time.Minute

// giveBack returns to the system what a rebuild, an audit or a burst of events has left
// behind, until ctx ends: by itself the runtime keeps as much for its next use as is in
// use, and a worker is idle for most of its time. It costs a collection a minute.
func giveBack(ctx context.Context) {
	loop.Run(ctx, loop.Options{Every: giveBackEvery}, func(context.Context) error {
		debug.FreeOSMemory()
		return nil
	})
}
