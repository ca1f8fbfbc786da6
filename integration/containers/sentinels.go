package containers

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/testcontainers/testcontainers-go"
	"golang.org/x/sync/errgroup"
)

// masterName is the sentinels' name for the master.
const masterName = "accounts"

// Sentinels are a Redis of three nodes, each a server and a sentinel.
type Sentinels struct {
	servers, sentinels []*container
	admins             []*redis.Client // of the servers
	watchers           []string        // addresses of the sentinels
}

// startSentinels needs a machine that reaches the containers at their addresses, like startRedisCluster: a
// sentinel tells clients the master's address. The first server is the master.
func startSentinels(ctx context.Context, image string, on *testcontainers.DockerNetwork) (*Sentinels, error) {
	r := &Sentinels{servers: make([]*container, nodes), sentinels: make([]*container, nodes), watchers: make([]string, nodes)}
	var first string
	for i := range nodes {
		flags := redisFlags("--repl-diskless-sync-delay", "0", "--min-replicas-max-lag", "2")
		if i > 0 {
			flags = append(flags, "--replicaof", first, "6379")
		}
		var err error
		if r.servers[i], err = start(ctx, spec{image: image, command: flags, networks: map[string][]string{on.Name: nil}}); err != nil {
			return r, err
		}
		ip, err := r.servers[i].address(ctx, on.Name)
		if err != nil {
			return r, err
		}
		if i == 0 {
			first = ip
		}
		r.admins = append(r.admins, redis.NewClient(&redis.Options{Addr: ip + ":6379", DisableIdentity: true}))
	}
	var group errgroup.Group
	for i := range nodes {
		group.Go(func() (err error) {
			r.sentinels[i], err = start(ctx, spec{
				image: image, command: []string{"/data/sentinel.conf", "--sentinel"}, networks: map[string][]string{on.Name: nil},
				kept: map[string][]byte{"/data/sentinel.conf": fmt.Appendf(nil, `
port 26379
dir /data
protected-mode no
sentinel monitor %[1]s %[2]s 6379 2
sentinel down-after-milliseconds %[1]s %[3]d
sentinel failover-timeout %[1]s 10000
`, masterName, first, nodeTimeout.Milliseconds())},
			})
			if err == nil {
				r.watchers[i], err = r.sentinels[i].address(ctx, on.Name)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return r, err
	}
	return r, until(ctx, r.complete)
}

// complete returns an error while a fail-over is not possible: a replica is not in sync, or a sentinel does
// not know both others and both replicas.
func (r *Sentinels) complete(ctx context.Context) error {
	for i := range r.servers[1:] {
		if err := inStep(ctx, r.admins[i+1]); err != nil {
			return err
		}
	}
	for i := range r.sentinels {
		about, err := r.known(ctx, i)
		if err != nil || about["num-other-sentinels"] != "2" || about["num-slaves"] != "2" {
			return fmt.Errorf("sentinel %d: %v, %w", i+1, about, err)
		}
	}
	return nil
}

// known returns a sentinel's information on the master.
func (r *Sentinels) known(ctx context.Context, i int) (map[string]string, error) {
	s := redis.NewSentinelClient(&redis.Options{Addr: r.watchers[i] + ":26379", DisableIdentity: true})
	defer func() { _ = s.Close() }()
	return s.Master(ctx, masterName).Result()
}

// Place returns the addresses of the sentinels.
func (r *Sentinels) Place() RedisPlace {
	var urls []string
	for _, ip := range r.watchers {
		urls = append(urls, "redis://"+ip+":26379")
	}
	all := strings.Join(urls, ",")
	return RedisPlace{inside: all, outside: all, master: masterName}
}

// NeedReplicas makes each server accept writes only while at least n replicas follow it.
func (r *Sentinels) NeedReplicas(ctx context.Context, n int) error {
	var errs []error
	for _, admin := range r.admins {
		errs = append(errs, admin.ConfigSet(ctx, "min-replicas-to-write", fmt.Sprint(n)).Err())
	}
	return errors.Join(errs...)
}

func (r *Sentinels) sides(node int) (with, without []*container) {
	for i := range nodes {
		if i == node {
			with = append(with, r.servers[i], r.sentinels[i])
		} else {
			without = append(without, r.servers[i], r.sentinels[i])
		}
	}
	return with, without
}

// Master returns the first server that is a master.
func (r *Sentinels) Master(ctx context.Context) (int, error) {
	return masterOf(ctx, r.admins, func(int) bool { return true })
}

func (r *Sentinels) promoted(ctx context.Context, instead int) (int, error) {
	return masterOf(ctx, r.admins, func(i int) bool { return i != instead })
}

func (r *Sentinels) follows(ctx context.Context, node int) error { return inStep(ctx, r.admins[node]) }

// Remove removes all servers and sentinels.
func (r *Sentinels) Remove(ctx context.Context) error {
	var errs []error
	for _, admin := range r.admins {
		errs = append(errs, admin.Close())
	}
	for _, c := range append(r.servers, r.sentinels...) {
		errs = append(errs, c.remove(ctx))
	}
	return errors.Join(errs...)
}

// replication returns the replication section of a server's INFO.
func replication(ctx context.Context, admin *redis.Client) (map[string]string, error) {
	info, err := admin.InfoMap(ctx, "replication").Result()
	return info["Replication"], err
}

// inStep returns an error unless the server is a replica that is connected to its master.
func inStep(ctx context.Context, admin *redis.Client) error {
	r, err := replication(ctx, admin)
	if err == nil && (r["role"] != "slave" || r["master_link_status"] != "up") {
		err = fmt.Errorf("redis: %s is no replica in step: role %s, link %s", admin.Options().Addr, r["role"], r["master_link_status"])
	}
	return err
}

// masterOf returns the first master among the servers that fit. It is an error if none is, or if one that is asked
// before does not answer.
func masterOf(ctx context.Context, admins []*redis.Client, fits func(int) bool) (int, error) {
	for i, admin := range admins {
		if !fits(i) {
			continue
		}
		r, err := replication(ctx, admin)
		if err != nil {
			return 0, err
		}
		if r["role"] == "master" {
			return i, nil
		}
	}
	return 0, errors.New("redis: none of the replicas is the master")
}
