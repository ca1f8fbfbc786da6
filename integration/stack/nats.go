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

// loopback is where all parts listen.
const loopback = "127.0.0.1"

// NATS is a nats-server with JetStream in this process. Streams are files, so
// they outlive a restart.
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

// URL is where clients connect; it stays the same over restarts.
func (n *NATS) URL() string { return "nats://" + net.JoinHostPort(loopback, strconv.Itoa(n.port)) }

// Start starts a stopped server, on the port that it had before, and returns
// when it serves.
func (n *NATS) Start(ctx context.Context) error {
	s, err := server.NewServer(&server.Options{
		ServerName: "hap-stack",
		Host:       loopback,
		Port:       n.port,
		JetStream:  true,
		StoreDir:   n.dir,
		NoSigs:     true,
		// Room for what the streams reserve: they set MaxBytes.
		JetStreamMaxMemory: 1 << 30,
		JetStreamMaxStore:  64 << 30,
	})
	if err != nil {
		return fmt.Errorf("nats: %w", err)
	}
	s.Start()
	wait := 10 * time.Second
	if deadline, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(deadline))
	}
	if !s.ReadyForConnections(wait) {
		s.Shutdown()
		s.WaitForShutdown()
		return fmt.Errorf("nats: does not serve on port %d after %s; is the port in use?", n.port, wait.Round(time.Second))
	}
	if !s.JetStreamEnabled() {
		s.Shutdown()
		s.WaitForShutdown()
		return errors.New("nats: JetStream did not start")
	}
	n.server = s
	n.port = s.Addr().(*net.TCPAddr).Port
	return nil
}

// Stop stops the server and returns when it is gone; twice is fine.
func (n *NATS) Stop() error {
	if n.server == nil {
		return nil
	}
	n.server.Shutdown()
	n.server.WaitForShutdown()
	n.server = nil
	return nil
}
