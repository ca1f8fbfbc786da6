package simulation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker/simulation/plans"
)

// port is a dependency that calls go to.
type port string

const (
	redis    port = "Redis"
	streams  port = "NATS"
	gardener port = "Gardener"
)

// call is one call of a port on its way: it is asked, has its effect, and returns.
type call struct {
	by      *process
	actor   string // which goroutine of the process, by what it does
	port    port
	op, arg string
	do      func() error
	write   bool // an unknown result differs from a failure
	arrived time.Time
	ready   time.Time // before that the scheduler does not see it

	answer chan error

	// Guarded by the gate's lock.
	left    bool // its caller waits no more
	done    bool // it had its effect
	outcome error
	parked  int // moments for which it is not chosen
}

// looks are the calls of Redis that change nothing.
var looks = []string{
	"place", "status", "in use", "queue", opPools, "bindings", "runtimes", "places", "runtime", "binding", opBuilt, "blocks of", "all blocks", "ranges built",
}

// seldom are the calls that come a few times in a history.
var seldom = []string{
	"mark freed", "begin dirtying", "release runtime", "revoke", "take back", "refuse", "install", "install ranges", "release blocks", "doubt",
	"free", "mark dirty", "unclaim", "purge " + events.StreamWaiting, "purge " + events.StreamReplies,
}

// meets reports whether a fault that waits for a call meets this one: some wait for one
// that changes something, some for one that is seldom.
func (c *call) meets(i plans.Item) bool {
	switch i.M >> 10 % 4 {
	case 0:
		return slices.Contains(seldom, c.op)
	case 1:
		return c.changes()
	default:
		return true
	}
}

// changes reports whether the call may change what others see.
func (c *call) changes() bool { return c.write && !slices.Contains(looks, c.op) }

func (c *call) name() string { return c.actor + ": " + c.op + " " + c.arg }

// gate is where the calls of all processes wait for the scheduler.
type gate struct {
	mu      sync.Mutex
	pending []*call       // in the order of compare, which does not depend on which goroutine was faster
	ready   []*call       // what choices returned last
	over    chan struct{} // closed at the end of the history
}

// compare is the order in which the scheduler sees calls.
func compare(a, b *call) int {
	return cmp.Or(strings.Compare(a.actor, b.actor), strings.Compare(a.op, b.op), strings.Compare(a.arg, b.arg), a.arrived.Compare(b.arrived))
}

// errOver is the answer to every call after the end of the history.
var errOver = errors.New("the history is over")

// errBroken is the answer of Redis over a broken connection.
var errBroken = errors.New("read tcp: connection reset by peer")

type actorKey struct{}

// as returns a context whose calls are those of an actor.
func as(ctx context.Context, actor string) context.Context {
	return context.WithValue(ctx, actorKey{}, actor)
}

func actorOf(ctx context.Context) string {
	actor, _ := ctx.Value(actorKey{}).(string)
	return actor
}

// pass takes a call through the gate. left reports that its caller may not read what the
// effect leaves, since that may still come.
func (g *gate) pass(ctx context.Context, c *call) (left bool, err error) {
	if c.by.dead.Load() {
		<-g.over
	}
	select {
	case <-g.over:
		return true, errOver
	default:
	}
	if ctx.Err() != nil {
		return true, c.port.expired(ctx, c.write)
	}
	c.actor, c.arrived, c.answer = actorOf(ctx), time.Now(), make(chan error, 1)
	g.mu.Lock()
	c.ready = c.by.admission(c)
	at := sort.Search(len(g.pending), func(i int) bool { return compare(g.pending[i], c) > 0 })
	g.pending = slices.Insert(g.pending, at, c)
	g.mu.Unlock()
	select {
	case err := <-c.answer:
		return false, err
	case <-ctx.Done():
		if c.by.dead.Load() {
			<-g.over
			return true, errOver
		}
		g.mu.Lock()
		c.left = true
		g.mu.Unlock()
		return true, c.port.expired(ctx, c.write)
	case <-g.over:
		return true, errOver
	}
}

// ask takes a call with a result through the gate.
func ask[T any](ctx context.Context, p *process, c call, do func(context.Context) (T, error)) (out T, err error) {
	var none T
	c.by, c.do = p, func() (err error) {
		out, err = do(context.Background())
		return err
	}
	left, err := p.world.gate.pass(ctx, &c)
	if left {
		return none, err
	}
	return out, err
}

// choices are the calls that the scheduler may choose from, until it asks again.
func (g *gate) choices(now time.Time) []*call {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ready = g.ready[:0]
	for _, c := range g.pending {
		if c.parked == 0 && !c.ready.After(now) {
			g.ready = append(g.ready, c)
		}
	}
	return g.ready
}

// moment lets parked calls come closer to their turn.
func (g *gate) moment(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range g.pending {
		c.parked = max(0, c.parked-n)
	}
}

// take removes a call.
func (g *gate) take(c *call) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if at := slices.Index(g.pending, c); at >= 0 {
		g.pending = slices.Delete(g.pending, at, at+1)
	}
}

// drop removes the calls of a process that died; it returns those that had no effect yet.
func (g *gate) drop(p *process) (open []*call) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pending = slices.DeleteFunc(g.pending, func(c *call) bool {
		if c.by == p && !c.done {
			open = append(open, c)
		}
		return c.by == p
	})
	slices.SortStableFunc(open, func(a, b *call) int { return strings.Compare(a.name(), b.name()) })
	return open
}

// settling are the calls that say what became of an event.
func (g *gate) settling() (all []*call) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range g.pending {
		if c.op == opAck || c.op == opNak || c.op == opTerm {
			all = append(all, c)
		}
	}
	slices.SortStableFunc(all, func(a, b *call) int { return strings.Compare(a.name(), b.name()) })
	return all
}

// busy reports whether an actor has a call on its way.
func (g *gate) busy(actor string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.ContainsFunc(g.pending, func(c *call) bool { return c.actor == actor && !c.left })
}

// expired is the error of a call whose context has ended.
func (p port) expired(ctx context.Context, write bool) error {
	if p == gardener {
		return fmt.Errorf("%w: %w", p.failed(write), context.Cause(ctx))
	}
	return context.Cause(ctx)
}

// failed is the error of a call of which its caller knows nothing more.
func (p port) failed(write bool) error {
	switch {
	case p == gardener && write:
		return engine.ErrUnknownResult
	case p == gardener:
		return engine.ErrUnavailable
	case p == streams:
		return nats.ErrTimeout
	default:
		return errBroken
	}
}

// refused is the error of a call that certainly had no effect.
func (p port) refused() error {
	switch p {
	case gardener:
		return engine.ErrUnavailable
	case streams:
		return nats.ErrNoResponders
	default:
		return errBroken
	}
}

// death is whether a process is gone; its goroutines then wait for the end of the history.
type death struct{ atomic.Bool }
