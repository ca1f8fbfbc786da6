package connect

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// counted is a connection that counts its writes.
type counted struct {
	net.Conn
	writes atomic.Int64
}

func (c *counted) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

func pipe(t *testing.T) (g *gathered, under *counted, peer net.Conn) {
	t.Helper()
	here, there := net.Pipe()
	under = &counted{Conn: here}
	g = gatherWrites(under)
	t.Cleanup(func() { _, _ = g.Close(), there.Close() })
	return g, under, there
}

// TestGatheredKeepsOrder writes from many goroutines: whole messages arrive, in the order of each goroutine,
// and Close loses none.
func TestGatheredKeepsOrder(t *testing.T) {
	t.Parallel()
	const writers, each = 8, 500
	g, under, peer := pipe(t)
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for n := range each {
				if _, err := fmt.Fprintf(g, "%d:%d\n", w, n); err != nil {
					t.Error(err)
				}
			}
		})
	}
	go func() {
		all.Wait()
		_ = g.Close()
	}()
	got, err := io.ReadAll(peer)
	if err != nil {
		t.Fatal(err)
	}
	next := [writers]int{}
	for line := range bytes.Lines(got) {
		var w, n int
		if _, err := fmt.Sscanf(string(line), "%d:%d", &w, &n); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if n != next[w] {
			t.Fatalf("writer %d: %d came instead of %d", w, n, next[w])
		}
		next[w]++
	}
	for w, n := range next {
		if n != each {
			t.Errorf("writer %d: %d of %d messages came", w, n, each)
		}
	}
	t.Logf("%d messages in %d writes", writers*each, under.writes.Load())
}

// TestGatheredSharesWrites has a peer that is slow to take the first message: all messages of the meantime go
// out in the second write.
func TestGatheredSharesWrites(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, under, peer := pipe(t)
		var want []byte
		write := func(text string) {
			want = append(want, text...)
			if _, err := io.WriteString(g, text); err != nil {
				t.Fatal(err)
			}
		}
		write("first")
		synctest.Wait()
		for n := range 100 {
			write(fmt.Sprintf(" %d", n))
		}
		got := make([]byte, len(want))
		if _, err := io.ReadFull(peer, got); err != nil || !bytes.Equal(got, want) {
			t.Errorf("got %q, %v", got, err)
		}
		if n := under.writes.Load(); n != 2 {
			t.Errorf("%d writes", n)
		}
	})
}

// TestGatheredBoundsWhatWaits has a peer that takes nothing: Write blocks above the bound, until the limit of
// a write ends the connection.
func TestGatheredBoundsWhatWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, _, peer := pipe(t)
		begin, chunk := time.Now(), make([]byte, mostGathered/4)
		var wrote int
		var err error
		for err == nil {
			var n int
			n, err = g.Write(chunk)
			wrote += n
		}
		if took := time.Since(begin); took != writeLimit {
			t.Errorf("ended after %s", took)
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		// One write is under way, one more than fits waits.
		if most := 2*mostGathered + 2*len(chunk); wrote > most || wrote <= mostGathered {
			t.Errorf("%d bytes were taken", wrote)
		}
		if _, err := peer.Read(chunk); !errors.Is(err, io.EOF) {
			t.Errorf("the peer's connection: %v", err)
		}
		if _, err := g.Read(chunk); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("the reader is told %v", err)
		}
	})
}

// TestGatheredCloses has a peer that takes nothing: Close waits only briefly, and nothing is written
// afterwards.
func TestGatheredCloses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, _, _ := pipe(t)
		if _, err := io.WriteString(g, "never read"); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		_ = g.Close()
		if took := time.Since(begin); took != partLimit {
			t.Errorf("closed after %s", took)
		}
		if _, err := io.WriteString(g, "late"); err == nil {
			t.Error("written after the end")
		}
	})
}
