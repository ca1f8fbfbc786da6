package containers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/testcontainers/testcontainers-go"
	"golang.org/x/sync/errgroup"
)

// redisFlags are the flags of every server: no eviction, and data that survives a restart. Our image and the
// upstream image both accept them.
func redisFlags(further ...string) []string {
	return append([]string{
		"--dir", "/data", "--bind", "0.0.0.0", "--protected-mode", "no", "--appendonly", "yes", "--save", "",
		"--maxmemory-policy", "noeviction",
	}, further...)
}

// Redis is a single server.
type Redis struct {
	image     string
	on        *testcontainers.DockerNetwork
	port      int
	container *container
}

func startRedis(ctx context.Context, image string, on *testcontainers.DockerNetwork) (*Redis, error) {
	ports, err := FreePorts(1)
	if err != nil {
		return nil, err
	}
	r := &Redis{image: image, on: on, port: ports[0]}
	return r, r.start(ctx)
}

func (r *Redis) start(ctx context.Context) (err error) {
	r.container, err = start(ctx, spec{
		image: r.image, command: redisFlags(), ports: map[int]int{6379: r.port}, networks: map[string][]string{r.on.Name: {"redis"}},
	})
	if err != nil {
		return err
	}
	client := redis.NewClient(&redis.Options{Addr: r.address(), DisableIdentity: true})
	defer func() { _ = client.Close() }()
	return r.container.await(ctx, func(ctx context.Context) error { return client.Ping(ctx).Err() })
}

func (r *Redis) address() string { return net.JoinHostPort(loopback, strconv.Itoa(r.port)) }

// Place returns the addresses of the server.
func (r *Redis) Place() RedisPlace {
	return RedisPlace{inside: "redis://redis:6379", outside: "redis://" + r.address()}
}

// Lose replaces the server by an empty one at the same address.
func (r *Redis) Lose(ctx context.Context) error {
	if err := r.container.remove(ctx); err != nil {
		return err
	}
	return r.start(ctx)
}

func (r *Redis) remove(ctx context.Context) error { return r.container.remove(ctx) }

// RedisPlace has the addresses of a Redis, and how to connect to them.
type RedisPlace struct {
	inside, outside string // URLs for containers and for this process
	cluster         bool
	master          string // its name at the sentinels; "" without sentinels
}

// RedisCluster has three primaries with a replica each.
type RedisCluster struct {
	docker     docker
	containers []*container // the primaries come first
	names      []string     // on the network
	ips        []string
	admins     []*redis.Client
}

// nodeTimeout is the silence after which the others of a cluster, or the sentinels, consider a server down.
const nodeTimeout = 2 * time.Second

// clusters numbers the clusters. All are on one network: with equal names, workers would reach the nodes of another
// test's cluster.
var clusters atomic.Int32

// startRedisCluster needs a machine that reaches the containers at their addresses, such as Linux with its
// local engine: the nodes of a cluster tell clients each other's addresses.
func startRedisCluster(ctx context.Context, d docker, image string, on *testcontainers.DockerNetwork) (*RedisCluster, error) {
	const n = 2 * nodes
	c := &RedisCluster{docker: d, containers: make([]*container, n), names: make([]string, n), ips: make([]string, n)}
	number := clusters.Add(1)
	var group errgroup.Group
	for i := range n {
		c.names[i] = fmt.Sprintf("cluster-%d-redis-%d", number, i+1)
		group.Go(func() (err error) {
			c.containers[i], err = start(ctx, spec{
				image: image, networks: map[string][]string{on.Name: {c.names[i]}},
				command: redisFlags("--cluster-enabled", "yes", "--cluster-node-timeout", strconv.Itoa(int(nodeTimeout.Milliseconds()))),
			})
			if err != nil {
				return err
			}
			c.ips[i], err = c.containers[i].ContainerIP(ctx)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return c, err
	}
	for i := range n {
		c.admins = append(c.admins, redis.NewClient(&redis.Options{Addr: c.ips[i] + ":6379", DisableIdentity: true}))
	}
	return c, c.form(ctx)
}

// form makes the nodes one cluster: each primary has a third of the slots, and a replica.
func (c *RedisCluster) form(ctx context.Context) error {
	const slots = 16384
	for i, admin := range c.admins {
		if err := c.containers[i].await(ctx, func(ctx context.Context) error { return admin.Ping(ctx).Err() }); err != nil {
			return err
		}
		var err error
		if i < nodes {
			err = admin.ClusterAddSlotsRange(ctx, i*slots/nodes, (i+1)*slots/nodes-1).Err()
		}
		// Different epochs, as redis-cli sets them: equal ones would first have to be resolved.
		err = errors.Join(err, admin.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err())
		if err == nil && i > 0 {
			err = c.admins[0].ClusterMeet(ctx, c.ips[i], "6379").Err()
		}
		if err != nil {
			return fmt.Errorf("redis cluster: node %d: %w", i+1, err)
		}
	}
	for i, admin := range c.admins[nodes:] {
		id, err := c.admins[i].ClusterMyID(ctx).Result()
		if err != nil {
			return err
		}
		// This fails until the node knows the primary.
		if err := until(ctx, func(ctx context.Context) error { return admin.ClusterReplicate(ctx, id).Err() }); err != nil {
			return err
		}
	}
	return until(ctx, func(ctx context.Context) error { return c.complete(ctx, c.admins...) })
}

// complete returns an error if one of the nodes does not answer, does not see all slots served, or is a replica that is
// not in sync.
func (c *RedisCluster) complete(ctx context.Context, admins ...*redis.Client) error {
	for _, admin := range admins {
		info, err := admin.ClusterInfo(ctx).Result()
		if err != nil {
			return err
		}
		if !strings.Contains(info, "cluster_state:ok") {
			return fmt.Errorf("redis cluster: %s", info)
		}
		replication, err := admin.InfoMap(ctx, "replication").Result()
		if err != nil {
			return err
		}
		if r := replication["Replication"]; r["role"] == "slave" && r["master_link_status"] != "up" {
			return fmt.Errorf("redis cluster: replica %s is not in step", admin.Options().Addr)
		}
	}
	return nil
}

// Place returns the addresses of all nodes.
func (c *RedisCluster) Place() RedisPlace {
	var inside, outside []string
	for i, ip := range c.ips {
		inside = append(inside, "redis://"+c.names[i]+":6379")
		outside = append(outside, "redis://"+ip+":6379")
	}
	return RedisPlace{inside: strings.Join(inside, ","), outside: strings.Join(outside, ","), cluster: true}
}

// FailOver kills a primary, 0 to 2, and returns when its replica has replaced it.
func (c *RedisCluster) FailOver(ctx context.Context, primary int) error {
	if err := c.containers[primary].kill(ctx, c.docker); err != nil {
		return err
	}
	replica := c.admins[nodes+primary]
	return until(ctx, func(ctx context.Context) error {
		if err := c.plays(ctx, replica, "master"); err != nil {
			return err
		}
		return c.complete(ctx, replica)
	})
}

// Restart starts a killed primary, and returns when it is a replica of its former replica. Until the others
// have told it, it considers itself a primary, with the data that it had when it was killed.
func (c *RedisCluster) Restart(ctx context.Context, primary int) error {
	if err := c.containers[primary].Start(ctx); err != nil {
		return err
	}
	ip, err := c.containers[primary].ContainerIP(ctx)
	if err != nil {
		return err
	}
	err = c.admins[primary].Close()
	c.admins[primary] = redis.NewClient(&redis.Options{Addr: ip + ":6379", DisableIdentity: true})
	return errors.Join(err, until(ctx, func(ctx context.Context) error {
		if err := c.plays(ctx, c.admins[primary], "slave"); err != nil {
			return err
		}
		return c.complete(ctx, c.admins[primary])
	}))
}

// plays returns an error unless a node has this role.
func (c *RedisCluster) plays(ctx context.Context, admin *redis.Client, role string) error {
	info, err := admin.InfoMap(ctx, "replication").Result()
	if err != nil {
		return err
	}
	if is := info["Replication"]["role"]; is != role {
		return fmt.Errorf("redis cluster: %s is still %s", admin.Options().Addr, is)
	}
	return nil
}

func (c *RedisCluster) sides(node int) (with, without []*container) {
	return slices.Clone(c.containers[node : node+1]), slices.Concat(c.containers[:node], c.containers[node+1:])
}

// Master returns the present primary of the first third of the slots.
func (c *RedisCluster) Master(ctx context.Context) (int, error) {
	return masterOf(ctx, c.admins, func(i int) bool { return i%nodes == 0 })
}

func (c *RedisCluster) promoted(ctx context.Context, instead int) (int, error) {
	return masterOf(ctx, c.admins, func(i int) bool { return i%nodes == instead%nodes && i != instead })
}

func (c *RedisCluster) follows(ctx context.Context, node int) error {
	return errors.Join(inStep(ctx, c.admins[node]), c.complete(ctx, c.admins...))
}

// Remove removes all nodes.
func (c *RedisCluster) Remove(ctx context.Context) error {
	var errs []error
	for _, admin := range c.admins {
		errs = append(errs, admin.Close())
	}
	for _, node := range c.containers {
		errs = append(errs, node.remove(ctx))
	}
	return errors.Join(errs...)
}
