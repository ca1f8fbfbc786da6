// Package gate holds calls of all processes of a simulation until the scheduler chooses them.
package gate

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"
)

// Caller is the process that makes a call.
type Caller interface {
	// Dead reports whether the process has died: its goroutines then block until the end of the history.
	Dead() bool
	// Admission returns when the scheduler may see a call. last is when the last call of its actor returned,
	// zero for none. It is called under the gate's lock.
	Admission(c *Call, last time.Time) time.Time
	// Straight reports whether a call passes without the scheduler. mine: it is the turn of the call's actor.
	// down: the call's port is down. It is called under the gate's lock.
	Straight(c *Call, mine, down bool) bool
}

// Call is a call of a port in flight: it is made, takes effect, and returns.
type Call struct {
	By      Caller
	Actor   string // names the goroutine by its task
	Port    Port
	Op, Arg string
	Do      func() error
	Write   bool // it may write: if its answer is lost, the caller cannot know whether it took effect
	Arrived time.Time

	ready  time.Time // before this time, the scheduler cannot choose it
	answer chan error

	// Used by the scheduler; the caller sets Left, under the gate's lock.
	Left    bool // its caller has given up
	Done    bool // it has taken effect
	Outcome error
	parked  int // moments until it may be chosen
}

// compare is the order in which the scheduler sees calls.
func compare(a, b *Call) int {
	return cmp.Or(strings.Compare(a.Actor, b.Actor), strings.Compare(a.Op, b.Op), strings.Compare(a.Arg, b.Arg), a.Arrived.Compare(b.Arrived))
}

// ErrOver is the error of every call after the end of the history.
var ErrOver = errors.New("the history is over")

// Gate holds the pending calls.
type Gate struct {
	mu      sync.Mutex
	pending []*Call              // in the order of compare, which does not depend on the speed of goroutines
	ready   []*Call              // the last result of Choices
	going   string               // the actor whose turn it is
	last    map[string]time.Time // when an actor's last call returned
	down    map[outage]int       // moments until a dependency answers again
	held    map[Caller]int       // moments until a process goes on
	queue   []turn               // goroutines in InTurn
	over    chan struct{}        // closed at the end of the history
}

// turn is a goroutine that waits until the scheduler lets it go on.
type turn struct {
	name string
	goes chan struct{}
}

// outage is a dependency that does not answer a process, or any process if by is nil.
type outage struct {
	by   Caller
	port Port
}

// New returns a gate without pending calls.
func New() *Gate {
	return &Gate{last: map[string]time.Time{}, down: map[outage]int{}, held: map[Caller]int{}, over: make(chan struct{})}
}

type actorKey struct{}

// As returns a context whose calls belong to an actor.
func As(ctx context.Context, actor string) context.Context {
	return context.WithValue(ctx, actorKey{}, actor)
}

// Actor returns the actor of a context.
func Actor(ctx context.Context) string {
	actor, _ := ctx.Value(actorKey{}).(string)
	return actor
}

// Pass takes a call through the gate: it blocks until the call has returned, its context has ended or the history is
// over; if the process is dead, until the history is over. In all cases but the first left is true: the effect may
// still come, so the caller must not read what the effect writes.
func (g *Gate) Pass(ctx context.Context, c *Call) (left bool, err error) {
	if c.By.Dead() {
		<-g.over
	}
	select {
	case <-g.over:
		return true, ErrOver
	default:
	}
	if ctx.Err() != nil {
		return true, c.Port.expired(ctx, c.Write)
	}
	c.Actor, c.Arrived, c.answer = Actor(ctx), time.Now(), make(chan error, 1)
	if g.enter(c) {
		return false, c.Do()
	}
	select {
	case err := <-c.answer:
		return false, err
	case <-ctx.Done():
		if c.By.Dead() {
			<-g.over
			return true, ErrOver
		}
		g.leave(c)
		return true, c.Port.expired(ctx, c.Write)
	case <-g.over:
		return true, ErrOver
	}
}

// leave notes that the caller of a call has given up. The call is taken away if the scheduler could not see it yet:
// whether it was made at all depends on a random pause.
func (g *Gate) leave(c *Call) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.Left = true; c.ready.After(time.Now()) {
		g.pending = slices.DeleteFunc(g.pending, func(p *Call) bool { return p == c })
	}
}

// enter queues a call, or returns true if it passes without the scheduler.
func (g *Gate) enter(c *Call) (straight bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c.ready = c.By.Admission(c, g.last[c.Actor])
	if !c.ready.After(c.Arrived) && c.By.Straight(c, c.Actor == g.going, g.isDown(c.By, c.Port)) && g.held[c.By] == 0 {
		g.last[c.Actor] = c.Arrived
		return true
	}
	at := sort.Search(len(g.pending), func(i int) bool { return compare(g.pending[i], c) > 0 })
	g.pending = slices.Insert(g.pending, at, c)
	return false
}

// Ask takes a call with a result through the gate. It returns the zero value if the call has not taken effect
// or its caller has given up.
func Ask[T any](ctx context.Context, g *Gate, c Call, do func(context.Context) (T, error)) (out T, err error) {
	var none T
	c.Do = func() (err error) {
		out, err = do(context.Background())
		return err
	}
	left, err := g.Pass(ctx, &c)
	if left {
		return none, err
	}
	return out, err
}

// InTurn blocks until Next. Goroutines that one event has woken use it, so that they go on in the order of their names,
// one at a time.
func (g *Gate) InTurn(by Caller, name string) {
	t := turn{name, make(chan struct{})}
	g.mu.Lock()
	g.queue = append(g.queue, t)
	g.mu.Unlock()
	select {
	case <-t.goes:
	case <-g.over:
	}
	if by.Dead() {
		<-g.over
	}
}

// Next lets the first goroutine in InTurn go on, by name, and reports whether there was one.
func (g *Gate) Next() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.queue) == 0 {
		return false
	}
	slices.SortFunc(g.queue, func(a, b turn) int { return strings.Compare(a.name, b.name) })
	close(g.queue[0].goes)
	g.queue = g.queue[1:]
	return true
}

// Choices returns the calls that the scheduler may choose from. The result is valid until the next Choices.
func (g *Gate) Choices(now time.Time) []*Call {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ready, g.going = g.ready[:0], ""
	for _, c := range g.pending {
		if c.parked == 0 && !c.ready.After(now) && g.held[c.By] == 0 {
			g.ready = append(g.ready, c)
		}
	}
	return g.ready
}

// NoTurn ends the turn of the current actor.
func (g *Gate) NoTurn() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.going = ""
}

// Moment lets n moments pass for parked calls, outages and held processes.
func (g *Gate) Moment(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range g.pending {
		c.parked = max(0, c.parked-n)
	}
	for o, left := range g.down {
		g.down[o] = max(0, left-n)
	}
	for by, left := range g.held {
		g.held[by] = max(0, left-n)
	}
}

// Take removes a call from the pending ones, if it is there.
func (g *Gate) Take(c *Call) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if at := slices.Index(g.pending, c); at >= 0 {
		g.pending = slices.Delete(g.pending, at, at+1)
	}
}

// Release removes a call, and returns err to its caller unless that has given up. Then it is the turn of the call's
// actor.
func (g *Gate) Release(c *Call, err error) {
	g.Take(c)
	g.mu.Lock()
	g.last[c.Actor], g.going = time.Now(), c.Actor
	left := c.Left
	g.mu.Unlock()
	if !left {
		c.answer <- err
	}
}

// Finish marks a call as executed; its answer comes later.
func (g *Gate) Finish(c *Call) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c.Done = true
}

// Park hides a call from the scheduler for some moments.
func (g *Gate) Park(c *Call, moments int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c.parked = moments
}

// Abandon returns err to the caller, while the call may take effect after some moments.
func (g *Gate) Abandon(c *Call, moments int, err error) {
	g.mu.Lock()
	c.Left, c.parked, g.last[c.Actor] = true, moments, time.Now()
	g.mu.Unlock()
	c.answer <- err
}

// Last is when the last call of an actor returned, zero for none.
func (g *Gate) Last(actor string) time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.last[actor]
}

// Returned sets the time of an actor's last return to now.
func (g *Gate) Returned(actor string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last[actor] = time.Now()
}

// Drop removes the pending calls of a dead process, and returns those of them that had no effect yet.
func (g *Gate) Drop(by Caller) (open []*Call) {
	g.mu.Lock()
	defer g.mu.Unlock()
	open = g.open(by)
	g.pending = slices.DeleteFunc(g.pending, func(c *Call) bool { return c.By == by })
	return open
}

// Open returns the pending calls of a process that had no effect yet.
func (g *Gate) Open(by Caller) []*Call {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.open(by)
}

func (g *Gate) open(by Caller) []*Call {
	return slices.DeleteFunc(slices.Clone(g.pending), func(c *Call) bool { return c.By != by || c.Done })
}

// Pending returns the pending calls of some operations.
func (g *Gate) Pending(ops ...string) (all []*Call) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range g.pending {
		if slices.Contains(ops, c.Op) {
			all = append(all, c)
		}
	}
	return all
}

// Busy reports whether an actor waits for a call in flight.
func (g *Gate) Busy(actor string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.ContainsFunc(g.pending, func(c *Call) bool { return c.Actor == actor && !c.Left })
}

// GoesDown takes a dependency down for some moments, for one process or, if by is nil, for all.
func (g *Gate) GoesDown(by Caller, p Port, moments int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.down[outage{by, p}] = moments
}

// Hold hides the calls of a process from the scheduler for some moments.
func (g *Gate) Hold(by Caller, moments int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held[by] = moments
}

// AllUp ends every outage, and holds no process any more.
func (g *Gate) AllUp() {
	g.mu.Lock()
	defer g.mu.Unlock()
	clear(g.down)
	clear(g.held)
}

// IsDown reports whether a dependency is down for a process, or for all if by is nil.
func (g *Gate) IsDown(by Caller, p Port) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.isDown(by, p)
}

func (g *Gate) isDown(by Caller, p Port) bool {
	return g.down[outage{nil, p}] > 0 || g.down[outage{by, p}] > 0
}

// Held reports whether the calls of a process are hidden from the scheduler.
func (g *Gate) Held(by Caller) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.held[by] > 0
}

// Over returns a channel that is closed at the end of the history.
func (g *Gate) Over() <-chan struct{} { return g.over }

// End ends the history.
func (g *Gate) End() { close(g.over) }
