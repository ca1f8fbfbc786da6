package containers

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"

	"golang.org/x/sync/errgroup"
)

// Split is a partition of the network of Redis into two sides. A container on it keeps
// its address. What one side sends to the other is dropped: every conversation between
// them goes silent, and the other one is not told.
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

// route changes the routes of both sides, from inside of each container's network.
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

// address is that of the container on a network.
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

// Replicated is a Redis in which a replica takes the place of its master.
type Replicated interface {
	Place() RedisPlace
	// Master is a node that accepts writes, and can be lost.
	Master(ctx context.Context) (int, error)
	Remove(ctx context.Context) error

	// sides are what goes with a node, and everything else.
	sides(node int) (with, without []*container)
	// promoted is the node that has taken the place of one; an error is that none has yet.
	promoted(ctx context.Context, instead int) (int, error)
	// follows says why a node is no replica in step, with nil for one that is.
	follows(ctx context.Context, node int) error
}

// Leave leaves a node of a Redis to one worker: no other container there reaches either of them.
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

// Promoted returns the node that everybody else has as the master instead of one.
func (l *Landscape) Promoted(ctx context.Context, redis Replicated, instead int) (node int, err error) {
	err = until(ctx, func(ctx context.Context) (err error) {
		node, err = redis.promoted(ctx, instead)
		return err
	})
	return node, err
}

// Follows returns when a node that was the master follows the present one.
func (l *Landscape) Follows(ctx context.Context, redis Replicated, node int) error {
	return until(ctx, func(ctx context.Context) error { return redis.follows(ctx, node) })
}
