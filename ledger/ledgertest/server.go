// Package ledgertest runs a NATS server with JetStream for tests, and has the tests that every World passes.
package ledgertest

import (
	"net"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// ready is how long a server may take to accept connections, or to answer a change of its streams.
const ready = 30 * time.Second

// NATS is a server that can be stopped and started again on the same store and port.
type NATS struct {
	t       testing.TB
	options server.Options
	running *server.Server
}

// Server starts a server with JetStream, whose store is a directory of the test,
// on a free port. It stops when the test ends. Changes are made to its options
// before it starts.
func Server(t testing.TB, changes ...func(*server.Options)) *NATS {
	t.Helper()
	s := &NATS{t: t, options: server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT,
		JetStream: true, StoreDir: t.TempDir(), JetStreamMaxStore: 8 << 30, JetStreamMaxMemory: 256 << 20,
		NoSigs: true, NoLog: true,
	}}
	for _, change := range changes {
		change(&s.options)
	}
	s.Start()
	t.Cleanup(s.Stop)
	return s
}

// Start starts a stopped server, on the port that it had.
func (s *NATS) Start() {
	s.t.Helper()
	options := s.options
	running, err := server.NewServer(&options)
	if err != nil {
		s.t.Fatalf("nats-server: %v", err)
	}
	running.Start()
	if !running.ReadyForConnections(ready) {
		running.Shutdown()
		s.t.Fatalf("nats-server takes no connections after %s", ready)
	}
	s.running = running
	address, ok := running.Addr().(*net.TCPAddr)
	if !ok {
		s.t.Fatalf("nats-server listens on %v", running.Addr())
	}
	s.options.Port = address.Port
}

// Stop stops the server and waits until it has stopped. Stopping twice is fine.
func (s *NATS) Stop() {
	if s.running == nil {
		return
	}
	s.running.Shutdown()
	s.running.WaitForShutdown()
	s.running = nil
}

// Restart stops the server and starts it again.
func (s *NATS) Restart() {
	s.t.Helper()
	s.Stop()
	s.Start()
}

// Connections returns how many connections the server has accepted since it was started.
func (s *NATS) Connections() uint64 {
	s.t.Helper()
	facts, err := s.running.Varz(nil)
	if err != nil {
		s.t.Fatalf("nats-server: %v", err)
	}
	return facts.TotalConnections
}

// URL is where the server listens, the same after a restart.
func (s *NATS) URL() string {
	return (&url.URL{Scheme: "nats", Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(s.options.Port))}).String()
}

// Connect returns a connection that reconnects quickly and without a limit. It is closed when the test ends.
func (s *NATS) Connect(options ...nats.Option) *nats.Conn {
	s.t.Helper()
	options = append([]nats.Option{
		nats.MaxReconnects(-1), nats.ReconnectWait(20 * time.Millisecond), nats.ReconnectJitter(0, 0),
	}, options...)
	nc, err := nats.Connect(s.URL(), options...)
	if err != nil {
		s.t.Fatalf("connecting to %s: %v", s.URL(), err)
	}
	s.t.Cleanup(nc.Close)
	return nc
}

// JetStream returns a JetStream client over a new connection, which is made as by Connect.
func (s *NATS) JetStream(options ...nats.Option) jetstream.JetStream {
	s.t.Helper()
	js, err := jetstream.New(s.Connect(options...))
	if err != nil {
		s.t.Fatalf("jetstream: %v", err)
	}
	return js
}
