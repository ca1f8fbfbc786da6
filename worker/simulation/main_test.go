package simulation

import (
	"os"
	"runtime/debug"
	"testing"
)

// A history is garbage as soon as it is played, and little of it lives at a time: with the
// usual setting a quarter of a run is collecting that, and with 400 every other history begins a
// collection.
func TestMain(m *testing.M) {
	debug.SetGCPercent(1600)
	os.Exit(m.Run())
}
