package containers

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"

	"golang.org/x/sync/errgroup"
)

// Split is a partition between two groups of containers on the Redis network. Containers keep their addresses. Packets
// between the sides are dropped: connections between them go silent, without an error to either end. Other containers
// reach both sides.
type Split struct {
	image string
	sides [2]side
}

type side struct {
	containers []*container
	addresses  []string
}

// split begins a partition.
func (s *System) split(ctx context.Context, near, far []*container) (*Split, error) {
	p := &Split{image: s.images.hole, sides: [2]side{{containers: near}, {containers: far}}}
	for i := range p.sides {
		for _, c := range p.sides[i].containers {
			address, err := c.address(ctx, s.networks[PartRedis].Name)
			if err != nil {
				return nil, err
			}
			p.sides[i].addresses = append(p.sides[i].addresses, address)
		}
	}
	return p, p.route(ctx, "add")
}

// Heal ends the partition.
func (p *Split) Heal(ctx context.Context) error { return p.route(ctx, "del") }

// route changes the routes of both sides, from inside each container's network.
func (p *Split) route(ctx context.Context, change string) error {
	var group errgroup.Group
	for i := range p.sides {
		for _, c := range p.sides[i].containers {
			args := append([]string{
				"run", "--rm", "--network", "container:" + c.GetContainerID(), "--user", "0", "--cap-add", "NET_ADMIN", p.image, change,
			}, p.sides[1-i].addresses...)
			group.Go(func() error {
				if out, err := exec.CommandContext(ctx, "docker", args...).CombinedOutput(); err != nil {
					return fmt.Errorf("routes: %w: %s", err, bytes.TrimSpace(out))
				}
				return nil
			})
		}
	}
	return group.Wait()
}

// address returns the container's address on a network.
func (c *container) address(ctx context.Context, network string) (string, error) {
	is, err := c.Inspect(ctx)
	if err != nil {
		return "", err
	}
	at := is.NetworkSettings.Networks[network]
	if at == nil || !at.IPAddress.IsValid() {
		return "", fmt.Errorf("container %s has no address on %s", is.Name, network)
	}
	return at.IPAddress.String(), nil
}

// Replicated is a Redis whose master a replica can replace.
type Replicated interface {
	Place() RedisPlace
	// Master returns a node that accepts writes, and that the test may lose.
	Master(ctx context.Context) (int, error)
	Remove(ctx context.Context) error

	// sides returns the containers that belong to a node, and all others.
	sides(node int) (with, without []*container)
	// promoted returns the node that has replaced the node instead, or an error while none has.
	promoted(ctx context.Context, instead int) (int, error)
	// follows returns nil if the node is a replica in sync, and otherwise an error that says why not.
	follows(ctx context.Context, node int) error
}

// Leave parts a node of a Redis and one worker from the other nodes of this Redis and the other workers of the
// landscape.
func (l *Landscape) Leave(ctx context.Context, redis Replicated, node, worker int) (*Split, error) {
	near, far := redis.sides(node)
	for n, w := range l.Workers {
		if n == worker {
			near = append(near, w.container)
		} else {
			far = append(far, w.container)
		}
	}
	return l.system.split(ctx, near, far)
}

// Promoted waits until a node has replaced the node instead as master, and returns that node.
func (l *Landscape) Promoted(ctx context.Context, redis Replicated, instead int) (node int, err error) {
	err = until(ctx, func(ctx context.Context) (err error) {
		node, err = redis.promoted(ctx, instead)
		return err
	})
	return node, err
}

// Follows returns when a node, such as a former master, follows the present master.
func (l *Landscape) Follows(ctx context.Context, redis Replicated, node int) error {
	return until(ctx, func(ctx context.Context) error { return redis.follows(ctx, node) })
}
