package daemon

import (
	"context"
	"runtime/debug"
	"time"
)

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
