package counterstest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// Mini starts a miniredis that ends with the test, and returns a client of it.
func Mini(t testing.TB) *redis.Client {
	t.Helper()
	server := miniredis.RunT(t)
	return client(t, &redis.Options{Addr: server.Addr()})
}

// Process is a separate redis-server on a socket in a temporary directory.
type Process struct {
	Socket string
	dir    string
	args   []string
	cmd    *exec.Cmd
}

// Redis starts a redis-server that ends with the test and returns a client of it.
// Without redis-server on PATH the test is skipped, or fails where HAP_REQUIRE_ALL is set.
func Redis(t testing.TB, args ...string) *redis.Client {
	t.Helper()
	return StartRedis(t, args...).Client(t)
}

// StartRedis is Redis, but returns the server instead of a client. The server can be killed and started again.
func StartRedis(t testing.TB, args ...string) *Process {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("HAP_REQUIRE_ALL") != "" {
			t.Fatal("redis-server is required")
		}
		t.Skip("not run: redis-server is not on PATH")
	}
	// The test's own directory may have a name too long for a socket.
	dir, err := os.MkdirTemp("", "hap-redis")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	p := &Process{Socket: filepath.Join(dir, "s"), dir: dir, args: args}
	p.Start(t)
	t.Cleanup(p.Kill)
	return p
}

// Start starts the server and returns when it answers. After Kill the server has only the data that it
// has written to disk: none, unless its arguments say so.
func (p *Process) Start(t testing.TB) {
	t.Helper()
	args := append([]string{"--port", "0", "--unixsocket", p.Socket, "--dir", p.dir, "--save", ""}, p.args...)
	p.cmd = exec.Command("redis-server", args...)
	p.cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	probe := redis.NewClient(&redis.Options{Network: "unix", Addr: p.Socket, MaxRetries: -1})
	defer func() { _ = probe.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := probe.Ping(ctx).Err()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal(fmt.Errorf("redis-server does not answer: %w", err))
		case <-tick.C:
		}
	}
}

// Kill ends the server as a crash would.
func (p *Process) Kill() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	p.cmd = nil
}

// Client returns a client that ends with the test.
func (p *Process) Client(t testing.TB) *redis.Client {
	t.Helper()
	return client(t, &redis.Options{Network: "unix", Addr: p.Socket})
}

func client(t testing.TB, o *redis.Options) *redis.Client {
	o.ContextTimeoutEnabled, o.DisableIdentity = true, true
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}
