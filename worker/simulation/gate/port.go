package gate

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/hap-worker/hap-worker/engine"
)

// Port is a dependency that is called.
type Port string

// The dependencies.
const (
	Redis    Port = "Redis"
	NATS     Port = "NATS"
	Gardener Port = "Gardener"
)

// RedisWrites are the calls of Redis that write: a full server refuses only them.
const RedisWrites Port = "Redis, for what writes"

// Ports are all dependencies.
var Ports = []Port{Redis, NATS, Gardener}

// ErrFull is the error of a Redis without free memory.
var ErrFull = errors.New("OOM command not allowed when used memory > 'maxmemory'")

// errBroken is the error of a broken connection to Redis.
var errBroken = errors.New("read tcp: connection reset by peer")

// expired is the error of a call whose context has ended.
func (p Port) expired(ctx context.Context, write bool) error {
	if p == Gardener {
		return fmt.Errorf("%w: %w", p.Failed(write), context.Cause(ctx))
	}
	return context.Cause(ctx)
}

// Failed is the error of a call without an answer: its caller cannot know whether a write took effect.
func (p Port) Failed(write bool) error {
	switch {
	case p == Gardener && write:
		return engine.ErrUnknownResult
	case p == Gardener:
		return engine.ErrUnavailable
	case p == NATS:
		return nats.ErrTimeout
	default:
		return errBroken
	}
}

// Refused is the error of a call that the dependency refuses: it has no effect.
func (p Port) Refused() error {
	switch p {
	case Gardener:
		return engine.ErrUnavailable
	case NATS:
		return nats.ErrNoResponders
	default:
		return errBroken
	}
}
