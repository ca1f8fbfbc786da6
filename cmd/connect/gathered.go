package connect

import (
	"net"
	"runtime"
	"sync"
	"time"
)

const (
	// mostGathered bounds what waits to be written, in bytes: who writes more waits for the
	// peer, as with any connection.
	mostGathered = 1 << 20
	// writeLimit bounds one write to the peer. A connection that takes nothing for so long
	// is closed, which its reader finds.
	writeLimit = 10 * time.Second
	// partLimit bounds how long closing waits for what has gathered.
	partLimit = time.Second
)

// gathered is a connection whose writes return at once. One goroutine writes to the peer
// what has gathered meanwhile, ADR 9: the client of NATS writes as soon as there is a
// message, and no other caller publishes until that is done.
//
// An error of the peer is that of the next Write. What was gathered when the connection
// breaks is lost, like the bytes that the kernel has not sent: publishers wait for the stream's
// acknowledgement.
type gathered struct {
	net.Conn
	done chan struct{} // nothing more is written

	mu      sync.Mutex
	changed sync.Cond // of all below
	waiting []byte
	err     error
	closed  bool
}

func gatherWrites(conn net.Conn) *gathered {
	g := &gathered{Conn: conn, done: make(chan struct{})}
	g.changed.L = &g.mu
	go g.run()
	return g
}

// Write keeps a copy of p for the peer. It waits only while too much waits already.
func (g *gathered) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.err == nil && !g.closed && len(g.waiting) > mostGathered {
		g.changed.Wait()
	}
	switch {
	case g.err != nil:
		return 0, g.err
	case g.closed:
		return 0, net.ErrClosed
	}
	g.waiting = append(g.waiting, p...)
	g.changed.Broadcast()
	return len(p), nil
}

// SetWriteDeadline does nothing: Write does not wait for the peer, and each write to it
// has its own limit.
func (g *gathered) SetWriteDeadline(time.Time) error { return nil }

// SetDeadline is SetReadDeadline.
func (g *gathered) SetDeadline(at time.Time) error { return g.SetReadDeadline(at) }

// Close waits a moment for what has gathered to be written.
func (g *gathered) Close() error {
	g.mu.Lock()
	g.closed = true
	g.changed.Broadcast()
	g.mu.Unlock()
	late := time.AfterFunc(partLimit, func() { _ = g.Conn.Close() })
	defer late.Stop()
	<-g.done
	return g.Conn.Close()
}

func (g *gathered) run() {
	defer close(g.done)
	var written []byte
	for {
		out, ok := g.take(written)
		if !ok {
			return
		}
		_ = g.Conn.SetWriteDeadline(time.Now().Add(writeLimit))
		if _, err := g.Conn.Write(out); err != nil {
			g.fail(err)
			return
		}
		written = out
	}
}

// take waits for something to write, and leaves room in its place.
func (g *gathered) take(room []byte) ([]byte, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for len(g.waiting) == 0 {
		if g.closed {
			return nil, false
		}
		g.changed.Wait()
	}
	g.mu.Unlock()
	runtime.Gosched() // callers that are about to write come along
	g.mu.Lock()
	out := g.waiting
	g.waiting = room[:0]
	g.changed.Broadcast()
	return out, true
}

// fail ends the connection: its reader tells its user, who may write nothing for long.
func (g *gathered) fail(err error) {
	g.mu.Lock()
	g.err = err
	g.changed.Broadcast()
	g.mu.Unlock()
	_ = g.Conn.Close()
}
