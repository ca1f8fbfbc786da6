package connect

import (
	"net"
	"runtime"
	"sync"
	"time"
)

const (
	// mostGathered is the number of waiting bytes above which Write blocks.
	mostGathered = 1 << 20
	// writeLimit bounds one write to the peer. A connection whose peer does not take it in time is closed, which
	// the connection's reader notices.
	writeLimit = 10 * time.Second
	// partLimit bounds how long Close waits for the gathered bytes to be written.
	partLimit = time.Second
)

// gathered is a connection whose writes return at once, unless more than mostGathered bytes wait. One
// goroutine writes the gathered bytes to the peer (ADR 9). The client of NATS writes as soon as there is a
// message, and blocks all other publishers during the write.
//
// If a write to the peer fails, the connection is closed, and later calls of Write return the error. Bytes
// that were gathered but not written are then lost, like bytes that the kernel has not sent: publishers wait
// for the stream's acknowledgement.
type gathered struct {
	net.Conn
	done chan struct{} // closed when run has ended

	mu      sync.Mutex
	changed sync.Cond // signals changes of the fields below
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

// Write stores a copy of p for the peer. It blocks only while more than mostGathered bytes wait.
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

// SetWriteDeadline does nothing: writeLimit bounds each write to the peer.
func (g *gathered) SetWriteDeadline(time.Time) error { return nil }

// SetDeadline is SetReadDeadline.
func (g *gathered) SetDeadline(at time.Time) error { return g.SetReadDeadline(at) }

// Close closes the connection. It first waits up to partLimit until the gathered bytes are written.
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

// take waits for gathered bytes and returns them. Later writes are gathered in room, a buffer that is no longer
// used. take returns false if the connection is closed and no bytes wait.
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
	runtime.Gosched() // lets callers that are about to write join
	g.mu.Lock()
	out := g.waiting
	g.waiting = room[:0]
	g.changed.Broadcast()
	return out, true
}

// fail makes Write return err, and closes the connection: so its reader notices the error even if no write
// follows.
func (g *gathered) fail(err error) {
	g.mu.Lock()
	g.err = err
	g.changed.Broadcast()
	g.mu.Unlock()
	_ = g.Conn.Close()
}
