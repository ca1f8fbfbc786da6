package stack

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// loopback is the address on which all parts listen.
const loopback = "127.0.0.1"

// NATS is a nats-server with JetStream in this process. It stores streams in files, so they
// survive a restart.
type NATS struct {
	dir    string
	port   int
	server *server.Server
}

func startNATS(ctx context.Context, dir string, port int) (*NATS, error) {
	if port == 0 {
		port = server.RANDOM_PORT
	}
	n := &NATS{dir: dir, port: port}
	return n, n.Start(ctx)
}

// URL returns the address for clients. Restarts do not change it.
func (n *NATS) URL() string { return "nats://" + net.JoinHostPort(loopback, strconv.Itoa(n.port)) }

// Start starts a stopped server on its old port, and returns when the server accepts
// connections.
func (n *NATS) Start(ctx context.Context) error {
	s, err := server.NewServer(&server.Options{
		ServerName: "hap-stack",
		Host:       loopback,
		Port:       n.port,
		JetStream:  true,
		StoreDir:   n.dir,
		NoSigs:     true,
		// The streams reserve their MaxBytes, so the limit must not be below their sum.
		JetStreamMaxMemory: 1 << 30,
		JetStreamMaxStore:  64 << 30,
	})
	if err != nil {
		return fmt.Errorf("nats: %w", err)
	}
	s.Start()
	wait := 2 * time.Minute // a server that hangs; a loaded machine takes seconds
	if deadline, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(deadline))
	}
	if !s.ReadyForConnections(wait) {
		s.Shutdown()
		s.WaitForShutdown()
		return fmt.Errorf("nats: the server did not accept connections on port %d within %s; is the port in use?", n.port, wait.Round(time.Second))
	}
	if !s.JetStreamEnabled() {
		s.Shutdown()
		s.WaitForShutdown()
		return errors.New("nats: the server started without JetStream")
	}
	n.server = s
	n.port = s.Addr().(*net.TCPAddr).Port
	return nil
}

// Stop stops the server and waits until it has ended. It may be called twice.
func (n *NATS) Stop() error {
	if n.server == nil {
		return nil
	}
	n.server.Shutdown()
	n.server.WaitForShutdown()
	n.server = nil
	return nil
}
