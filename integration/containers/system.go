package containers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync/atomic"

	"github.com/testcontainers/testcontainers-go"
	"golang.org/x/sync/errgroup"
)

// Part is a dependency that workers can be cut off from.
type Part int

// The parts. Each is alone on a network that the workers join.
const (
	PartNATS Part = iota
	PartRedis
	PartKube
	parts
)

func (p Part) String() string { return [parts]string{"NATS", "Redis", "the Kubernetes API"}[p] }

// Options configure a System.
type Options struct {
	// Gardener is how the Gardener kinds are served: stack.RealGardener, stack.CRDGardener or
	// stack.LightGardener. Defaults to the first.
	Gardener string
	// Talk gets the progress of builds. Required.
	Talk io.Writer
}

// System has the parts that landscapes share.
type System struct {
	NATS  *NATS
	Redis *Redis
	Kube  *Kube

	docker   docker
	images   images
	networks [parts]*testcontainers.DockerNetwork
	taken    atomic.Int32 // landscapes
}

// Available returns nil if a container engine is usable. It runs the program docker, which also builds the images. It
// does not use testcontainers-go, which panics if it finds no engine.
func Available(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, "docker", "version", "--format", "{{.Server.Version}}").CombinedOutput()
	if err != nil {
		return fmt.Errorf("docker version: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// Start builds the images that are out of date, and starts the parts. ctx limits the start. After an error,
// nothing is left running.
func Start(ctx context.Context, o Options) (*System, error) {
	if err := prepare(); err != nil {
		return nil, err
	}
	s := &System{}
	var err error
	if s.images, err = buildImages(ctx, o); err != nil {
		return nil, err
	}
	if s.docker, err = connect(ctx); err != nil {
		return nil, err
	}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(err, s.Stop(context.WithoutCancel(ctx)))
	}
	return s, nil
}

func (s *System) start(ctx context.Context) error {
	if err := s.docker.sweep(ctx); err != nil {
		return err
	}
	for p := range s.networks {
		var err error
		if s.networks[p], err = newNetwork(ctx); err != nil {
			return err
		}
	}
	var group errgroup.Group
	group.Go(func() (err error) {
		s.NATS, err = startNATS(ctx, s.docker, s.images.nats, s.networks[PartNATS])
		return err
	})
	group.Go(func() (err error) {
		s.Redis, err = startRedis(ctx, s.images.redis, s.networks[PartRedis])
		return err
	})
	group.Go(func() (err error) {
		s.Kube, err = startKube(ctx, s.images.kube, s.images.gardener, s.networks[PartKube])
		return err
	})
	return group.Wait()
}

// NewRedisCluster starts a Redis Cluster beside the single server. The caller removes it.
func (s *System) NewRedisCluster(ctx context.Context) (*RedisCluster, error) {
	c, err := startRedisCluster(ctx, s.docker, s.images.redis, s.networks[PartRedis])
	if err != nil {
		return nil, errors.Join(err, c.Remove(context.WithoutCancel(ctx)))
	}
	return c, nil
}

// NewSentinels starts a Redis with sentinels beside the single server. The caller
// removes it.
func (s *System) NewSentinels(ctx context.Context) (*Sentinels, error) {
	r, err := startSentinels(ctx, s.images.redis, s.networks[PartRedis])
	if err != nil {
		return nil, errors.Join(err, r.Remove(context.WithoutCancel(ctx)))
	}
	return r, nil
}

// Stop removes the shared parts and their networks.
func (s *System) Stop(ctx context.Context) error {
	var errs []error
	if s.NATS != nil {
		errs = append(errs, s.NATS.remove(ctx))
	}
	if s.Redis != nil {
		errs = append(errs, s.Redis.remove(ctx))
	}
	if s.Kube != nil {
		errs = append(errs, s.Kube.remove(ctx))
	}
	for _, n := range s.networks {
		if n != nil {
			errs = append(errs, n.Remove(ctx))
		}
	}
	return errors.Join(append(errs, s.docker.Close())...)
}
