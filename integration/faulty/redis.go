package faulty

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Cut is the fault of a piece of a connection to Redis.
type Cut int

// The faults of a piece. The zero value is none.
const (
	Pass        Cut = iota
	LoseRequest     // the connection is closed before the server sees the request
	LoseReply       // the server gets the request; the connection is closed in place of the server's next answer
)

// Redis is a proxy for a Redis server that can lose requests and replies. It does not parse the protocol: a
// piece is the result of one read from a client's connection, such as a request or a pipeline.
type Redis struct {
	listener net.Listener
	target   atomic.Pointer[string]
	choose   atomic.Pointer[func() Cut]
	served   sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

// NewRedis starts a proxy for the server at address, host:port.
func NewRedis(address string) (*Redis, error) {
	var config net.ListenConfig
	listener, err := config.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("faulty: %w", err)
	}
	r := &Redis{listener: listener, conns: map[net.Conn]struct{}{}}
	r.target.Store(&address)
	r.Choose(nil)
	r.served.Go(r.accept)
	return r, nil
}

// URL is the URL for clients.
func (r *Redis) URL() string { return "redis://" + r.listener.Addr().String() }

// Choose sets the function that chooses the fault of each following piece; nil injects none. f must be safe for
// concurrent use.
func (r *Redis) Choose(f func() Cut) {
	if f == nil {
		f = func() Cut { return Pass }
	}
	r.choose.Store(&f)
}

// Lead redirects the proxy to another server, host:port: it closes all connections, and new ones go there.
func (r *Redis) Lead(address string) {
	r.target.Store(&address)
	r.cut()
}

func (r *Redis) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.conns {
		_ = c.Close()
	}
}

// Close stops the proxy, and closes all connections.
func (r *Redis) Close() {
	_ = r.listener.Close()
	r.cut()
	r.served.Wait()
}

func (r *Redis) accept() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.keep(client)
		r.served.Go(func() {
			defer r.drop(client)
			server, err := (&net.Dialer{Timeout: 5 * time.Second}).Dial("tcp", *r.target.Load())
			if err != nil {
				return // drop closes the client's connection, which is accepted already
			}
			r.keep(server)
			defer r.drop(server)
			r.converse(client, server)
		})
	}
}

func (r *Redis) keep(c net.Conn) {
	r.mu.Lock()
	r.conns[c] = struct{}{}
	r.mu.Unlock()
}

func (r *Redis) drop(c net.Conn) {
	_ = c.Close()
	r.mu.Lock()
	delete(r.conns, c)
	r.mu.Unlock()
}

// converse passes pieces both ways until one side ends or something is lost.
func (r *Redis) converse(client, server net.Conn) {
	var lose atomic.Bool // the next reply
	var replies sync.WaitGroup
	replies.Go(func() {
		defer func() { _ = client.Close() }()
		piece := make([]byte, 64<<10)
		for {
			n, err := server.Read(piece)
			if err != nil || lose.Load() {
				return
			}
			if _, err := client.Write(piece[:n]); err != nil {
				return
			}
		}
	})
	r.requests(client, server, &lose)
	_ = server.Close()
	replies.Wait()
}

func (r *Redis) requests(client io.Reader, server io.Writer, lose *atomic.Bool) {
	piece := make([]byte, 64<<10)
	for {
		n, err := client.Read(piece)
		if err != nil {
			return
		}
		switch (*r.choose.Load())() {
		case LoseRequest:
			return
		case LoseReply:
			lose.Store(true)
		case Pass:
		}
		if _, err := server.Write(piece[:n]); err != nil {
			return
		}
	}
}
