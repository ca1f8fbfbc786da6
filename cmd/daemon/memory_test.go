package daemon

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
)

// TestGrowth: a small heap may become four times as large before it is collected, a large one twice.
func TestGrowth(t *testing.T) {
	for _, c := range []struct {
		inUse uint64
		want  int
	}{{0, 300}, {30 << 20, 300}, {64 << 20, 200}, {128 << 20, 100}, {1 << 40, 100}} {
		if growth := growthAt(c.inUse); growth != c.want {
			t.Errorf("%d bytes in use: may grow by %d %%, want %d", c.inUse, growth, c.want)
		}
	}
}

// TestGrowthFollowsUse: what a collection leaves decides how much the heap grows until the next one.
func TestGrowthFollowsUse(t *testing.T) {
	t.Setenv("GOGC", "")
	collectByUse()
	expectGrowth(t, 300)
	used := make([]byte, 256<<20)
	expectGrowth(t, 100)
	runtime.KeepAlive(used)
	expectGrowth(t, 300)
}

// expectGrowth collects until the heap may grow by as much as is expected: the growth is set soon after a collection.
func expectGrowth(t *testing.T, want uint64) {
	t.Helper()
	set := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	for range 10_000 {
		runtime.GC()
		if metrics.Read(set); set[0].Value.Uint64() == want {
			return
		}
	}
	t.Fatalf("the heap may grow by %d %%, want %d", set[0].Value.Uint64(), want)
}

// TestMuchIsFree: what is no longer in use is worth giving back, once.
func TestMuchIsFree(t *testing.T) {
	kept, used := make([]byte, 64<<20), make([]byte, 64<<20)
	debug.FreeOSMemory()
	if muchIsFree() {
		t.Error("all is in use")
	}
	runtime.KeepAlive(used)
	runtime.GC()
	if !muchIsFree() {
		t.Error("64 MB are free")
	}
	debug.FreeOSMemory()
	if muchIsFree() {
		t.Error("all was given back")
	}
	runtime.KeepAlive(kept)
}
