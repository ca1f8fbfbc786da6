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
	MiniRedis = "miniredis" // an emulation in this process
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

// startRedis starts the given kind. "" is redis-server if it is on PATH, otherwise miniredis.
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

// Kind returns RealRedis or MiniRedis.
func (r *Redis) Kind() string { return r.kind }

// URL returns the URL for clients. Restarts do not change it.
func (r *Redis) URL() string { return "redis://" + r.address() }

// Address returns the host:port of the URL.
func (r *Redis) Address() string { return r.address() }

func (r *Redis) address() string { return net.JoinHostPort(loopback, strconv.Itoa(r.port)) }

// Start starts a stopped server on its old port with its old data, and returns when it answers.
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

// answers checks that our redis-server has the port, and not another one.
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

// Stop stops the server and keeps its data.
func (r *Redis) Stop() error {
	if r.mini != nil {
		r.mini.Close()
		return nil
	}
	return r.server.stop()
}

// Kill ends the server at once, like a crash. Writes that are in its append-only file survive, and all of miniredis.
func (r *Redis) Kill() {
	if r.mini != nil {
		r.mini.Close()
		return
	}
	r.server.kill()
}

// Lose stops the server, deletes its data, and starts it again: the loss that a rebuild repairs.
func (r *Redis) Lose(ctx context.Context) error {
	r.Kill()
	r.mini = nil
	if err := os.RemoveAll(filepath.Clean(r.dir)); err != nil {
		return err
	}
	return r.Start(ctx)
}

// Another starts a second redis-server, a master until Follow is called. The caller stops it. Not for miniredis.
func (r *Redis) Another(ctx context.Context) (*Redis, error) {
	return startRedis(ctx, filepath.Clean(r.dir)+"-another", Options{Redis: RealRedis, Talk: r.talk})
}

// Follow makes the server a replica, and returns when it is in sync with its master. With nil it becomes a
// master. Not for miniredis.
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

// Remember copies the present data for Rewind. For miniredis it does nothing.
func (r *Redis) Remember() error {
	if r.kind == MiniRedis {
		return nil
	}
	if err := os.RemoveAll(r.copied()); err != nil {
		return err
	}
	return os.CopyFS(r.copied(), os.DirFS(r.dir))
}

// Rewind kills the server, and starts it with the data of Remember: a server that restarts with old data.
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
