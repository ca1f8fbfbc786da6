package simulation

import (
	"os"
	"runtime/debug"
	"testing"
)

// A history is garbage once it is played, and little is live at a time. With the default GC percentage, a
// quarter of a run is garbage collection; with 400, every other history starts a collection.
func TestMain(m *testing.M) {
	debug.SetGCPercent(1600)
	os.Exit(m.Run())
}
