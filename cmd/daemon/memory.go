package daemon

import (
	"context"
	"os"
	"runtime/debug"
	"time"
)

// collectAt is by how many per cent the heap grows before it is collected, where the
// environment does not say it with GOGC: a worker has little on its heap, and with Go's
// 100 a busy one spends more than a tenth of its time on collections. Where memory is
// limited (GOMEMLIMIT) it is collected as early as the limit needs it.
const collectAt = 300

// collectLate sets it.
func collectLate() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(collectAt)
	}
}

// giveBackEvery is how often memory is given back that is not in use.
const giveBackEvery = time.Minute

// giveBack returns to the system what a rebuild, an audit or a burst of events has left
// behind, until ctx ends: by itself the runtime keeps as much for its next use as is in
// use, and a worker is idle for most of its time. It costs a collection a minute.
func giveBack(ctx context.Context) {
	tick := time.NewTicker(giveBackEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			debug.FreeOSMemory()
		}
	}
}
