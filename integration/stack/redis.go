package stack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// The kinds of Redis that a stack can have.
const (
	RealRedis = "redis"     // redis-server, with an append-only file and without eviction
	MiniRedis = "miniredis" // an imitation in this process, where redis-server is not on PATH
)

// Redis is a redis-server process, or miniredis.
type Redis struct {
	kind   string
	dir    string
	port   int
	path   string // of redis-server
	talk   io.Writer
	server *process
	mini   *miniredis.Miniredis
}

// startRedis starts the wanted kind; "" is redis-server where it is on PATH,
// else miniredis.
func startRedis(ctx context.Context, dir string, o Options) (*Redis, error) {
	kind, port := o.Redis, o.RedisPort
	path, err := exec.LookPath("redis-server")
	switch {
	case kind == "" && err == nil:
		kind = RealRedis
	case kind == "":
		kind = MiniRedis
	case kind == RealRedis && err != nil:
		return nil, fmt.Errorf("redis: %w", err)
	case kind != RealRedis && kind != MiniRedis:
		return nil, fmt.Errorf("redis: no kind %q: %s or %s", kind, RealRedis, MiniRedis)
	}
	if port == 0 {
		if port, err = FreePort(); err != nil {
			return nil, fmt.Errorf("redis: %w", err)
		}
	}
	r := &Redis{kind: kind, dir: dir, port: port, path: path, talk: o.Talk}
	return r, r.Start(ctx)
}

// Kind is RealRedis or MiniRedis.
func (r *Redis) Kind() string { return r.kind }

// URL is where clients connect; it stays the same over restarts.
func (r *Redis) URL() string { return "redis://" + r.address() }

// Address is that of the URL, host:port.
func (r *Redis) Address() string { return r.address() }

func (r *Redis) address() string { return net.JoinHostPort(loopback, strconv.Itoa(r.port)) }

// Start starts a stopped server with the data that it had, on the same port,
// and returns when it answers.
func (r *Redis) Start(ctx context.Context) error {
	if r.kind == MiniRedis {
		return r.startMini()
	}
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return err
	}
	var err error
	r.server, err = startProcess(command{
		name: "redis-server",
		path: r.path,
		args: []string{
			"--bind", loopback, "--port", strconv.Itoa(r.port), "--dir", r.dir,
			"--appendonly", "yes", "--appendfsync", "everysec", "--save", "",
			"--maxmemory-policy", "noeviction", "--loglevel", "warning", "--repl-diskless-sync-delay", "0",
		},
		talk: r.talk,
	})
	if err != nil {
		return err
	}
	client := redis.NewClient(&redis.Options{Addr: r.address(), MaxRetries: -1, DisableIdentity: true})
	err = r.server.await(ctx, func(ctx context.Context) error { return r.answers(ctx, client) })
	err = errors.Join(err, client.Close())
	if err != nil {
		r.server.kill()
	}
	return err
}

// answers asks whether it is our redis-server that has the port: another one
// that has it would answer too.
func (r *Redis) answers(ctx context.Context, client *redis.Client) error {
	info, err := client.InfoMap(ctx, "server").Result()
	if err != nil {
		return err
	}
	pid := info["Server"]["process_id"]
	if pid != strconv.Itoa(r.server.cmd.Process.Pid) {
		return fmt.Errorf("port %d belongs to another server, process %s", r.port, pid)
	}
	return nil
}

func (r *Redis) startMini() error {
	if r.mini != nil { // stopped: miniredis keeps its data in memory
		return r.mini.Restart()
	}
	r.mini = miniredis.NewMiniRedis()
	return r.mini.StartAddr(r.address())
}

// Stop stops the server; its data stays.
func (r *Redis) Stop() error {
	if r.mini != nil {
		r.mini.Close()
		return nil
	}
	return r.server.stop()
}

// Kill ends the server at once, as a crash does. What it had acknowledged and
// written to its append-only file stays.
func (r *Redis) Kill() {
	if r.mini != nil {
		r.mini.Close()
		return
	}
	r.server.kill()
}

// Lose stops the server, drops all its data and starts it again: the loss that
// a rebuild has to mend.
func (r *Redis) Lose(ctx context.Context) error {
	r.Kill()
	r.mini = nil
	if err := os.RemoveAll(filepath.Clean(r.dir)); err != nil {
		return err
	}
	return r.Start(ctx)
}

// Another starts one more redis-server, which is on its own until it follows one. The
// caller stops it.
func (r *Redis) Another(ctx context.Context) (*Redis, error) {
	return startRedis(ctx, filepath.Clean(r.dir)+"-another", Options{Redis: RealRedis, Talk: r.talk})
}

// Follow makes the server a replica and returns once it has its master's data; nil makes it
// a separate master.
func (r *Redis) Follow(ctx context.Context, master *Redis) error {
	client := redis.NewClient(&redis.Options{Addr: r.address(), DisableIdentity: true})
	defer func() { _ = client.Close() }()
	if master == nil {
		return client.ReplicaOf(ctx, "NO", "ONE").Err()
	}
	if err := client.ReplicaOf(ctx, loopback, strconv.Itoa(master.port)).Err(); err != nil {
		return err
	}
	return r.server.await(ctx, func(ctx context.Context) error {
		info, err := client.InfoMap(ctx, "replication").Result()
		if err == nil && info["Replication"]["master_link_status"] != "up" {
			err = fmt.Errorf("port %d does not follow port %d yet", r.port, master.port)
		}
		return err
	})
}

// Remember keeps a copy of the data as it is now, for Rewind. Without
// redis-server there is nothing to copy.
func (r *Redis) Remember() error {
	if r.kind == MiniRedis {
		return nil
	}
	if err := os.RemoveAll(r.copied()); err != nil {
		return err
	}
	return os.CopyFS(r.copied(), os.DirFS(r.dir))
}

// Rewind ends the server at once and starts it with the data of Remember: a
// server that comes up with what it had some time ago.
func (r *Redis) Rewind(ctx context.Context) error {
	if r.kind == MiniRedis {
		return errors.New("redis: miniredis cannot be rewound")
	}
	r.Kill()
	if err := os.RemoveAll(r.dir); err != nil {
		return err
	}
	if err := os.Rename(r.copied(), r.dir); err != nil {
		return err
	}
	return r.Start(ctx)
}

func (r *Redis) copied() string { return filepath.Clean(r.dir) + "-then" }
