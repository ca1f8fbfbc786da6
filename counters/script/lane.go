package script

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/hap-worker/hap-worker/counters/connection"
	"github.com/hap-worker/hap-worker/engine/account"
)

// mostAtOnce bounds the requests of one round trip, so that no caller waits long for the others.
const mostAtOnce = 256

// mostArguments bounds the arguments of one script call for several requests. The server accepts a
// million. A request with more arguments than mostArguments is sent alone.
const mostArguments = 20_000

// connectLimit bounds one attempt of a lane to connect. The callers that it was for then go on without a lane; those
// that came meanwhile wait for the next attempt.
const connectLimit = 5 * time.Second

// errNoLane says that a call was not sent.
var errNoLane = errors.New("no connection for it")

// lane is one connection to one server that many callers share. Requests that arrive during a round
// trip are sent together in the next one, so that callers share its cost.
//
// A lane knows the run id of the server that its connection leads to: it asks for the id on each new connection,
// before it sends anything else there. A script over a lane therefore need not ask (see gate).
type lane struct {
	master *redis.Client // the client whose server the lane leads to
	slots  bool          // the server is one of a cluster
	client *redis.Client // separate, so that it takes no connection from other callers
	owner  *Client
	wake   chan struct{}

	mu     sync.Mutex
	queue  []*laneCall
	closed bool

	used time.Time // guarded by lanes.mu: when a caller last asked for this lane

	// Used by the sending goroutine only.
	conn   *redis.Conn
	server string // the run that conn leads to
}

// laneCall is one request on its way.
type laneCall struct {
	ctx    context.Context
	script Script
	Request
	done chan laneAnswer // of capacity one: a caller that has gone does not block the lane
}

// laneAnswer is a script's answer to one request, or the error.
type laneAnswer struct {
	values any
	fenced map[string]string  // by meta keys: the fenced epochs of all places of the call, also of other requests'
	check  account.EpochCheck // from a look after the answer; nil if there was none
	at     time.Time          // when the server's answer arrived
	err    error
}

func newLane(owner *Client, master *redis.Client, slots bool) *lane {
	o := *master.Options()
	o.PoolSize, o.MinIdleConns, o.MaxRetries = 1, 0, -1
	// A separate configuration: the master's is shared by pointer, and written while the master connects.
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return &lane{master: master, slots: slots, client: redis.NewClient(&o), owner: owner, wake: make(chan struct{}, 1)}
}

// do sends a request and waits for its answer or the end of ctx. After an error the request may or may
// not have been executed.
func (l *lane) do(ctx context.Context, sc Script, r Request) laneAnswer {
	call := &laneCall{ctx: ctx, script: sc, Request: r, done: make(chan laneAnswer, 1)}
	if !l.add(call) {
		return laneAnswer{err: errNoLane}
	}
	select {
	case answer := <-call.done:
		return answer
	case <-ctx.Done():
		return laneAnswer{err: context.Cause(ctx)}
	}
}

func (l *lane) add(call *laneCall) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.queue = append(l.queue, call)
	select {
	case l.wake <- struct{}{}:
	default:
	}
	return true
}

// close ends the lane once its queue has been sent. It does not wait for that.
func (l *lane) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.closed = true
		close(l.wake)
	}
}

func (l *lane) run() {
	defer func() {
		l.disconnect()
		_ = l.client.Close()
	}()
	for range l.wake {
		runtime.Gosched() // callers that are about to ask join the batch
		for batch := l.take(); len(batch) > 0; batch = l.take() {
			l.send(batch)
			runtime.Gosched()
		}
	}
}

// take returns up to mostAtOnce calls, and removes them from the queue. It drops calls whose contexts
// have ended. If it returns none, the queue is empty.
func (l *lane) take() []*laneCall {
	l.mu.Lock()
	defer l.mu.Unlock()
	var batch []*laneCall
	seen := 0
	for _, call := range l.queue {
		if len(batch) == mostAtOnce {
			break
		}
		seen++
		if call.ctx.Err() == nil {
			batch = append(batch, call)
		}
	}
	l.queue = slices.Delete(l.queue, 0, seen)
	return batch
}

// send makes one round trip, and passes each call its answer. It closes the connection if the connection failed,
// or if the server's error is one of notHere, such as MOVED or READONLY, except NOSCRIPT.
func (l *lane) send(batch []*laneCall) {
	ctx := context.Background() // a caller's context must not end the round trip of others
	if err := l.connect(ctx); err != nil {
		for _, call := range batch {
			call.done <- laneAnswer{err: fmt.Errorf("%w: %v", errNoLane, err)} //nolint:errorlint // not an answer to the call
		}
		return
	}
	pipe := l.conn.Pipeline()
	groups := l.together(batch)
	for i := range groups {
		groups[i].cmd = groups[i].command(ctx, l.server)
		_ = pipe.Process(ctx, groups[i].cmd) // it only gathers
	}
	_, _ = pipe.Exec(ctx) // each group has its own error
	at := time.Now()
	lost := false
	var looked []group
	for _, g := range groups {
		err := g.cmd.Err()
		lost = lost || err != nil && !refused(err) && !redis.HasErrorPrefix(err, "NOSCRIPT")
		if g.read(at); l.owner.looks(g.script, g.answer) {
			looked = append(looked, g)
		} else {
			g.tell()
		}
	}
	if len(looked) > 0 {
		// The callers of a batch wait for one look, not each for its own: a caller that waits twice costs more CPU.
		l.owner.lanes.running.Go(func() {
			check := l.owner.Look(ctx)
			for _, g := range looked {
				g.answer.check = check
				g.tell()
			}
		})
	}
	if lost {
		l.disconnect()
	}
}

// group is one script call, which decides the requests of all its calls.
type group struct {
	script    Script
	calls     []*laneCall
	arguments int
	cmd       *redis.Cmd
	answer    laneAnswer // what all calls share of it
	values    []any      // of each call, nil after an error
}

// together groups the calls of a batch that one script call can decide.
func (l *lane) together(batch []*laneCall) []group {
	var groups []group
	for _, call := range batch {
		i := slices.IndexFunc(groups, func(g group) bool { return l.fits(g, call) })
		if i < 0 {
			i = len(groups)
			groups = append(groups, group{script: call.script})
		}
		groups[i].calls = append(groups[i].calls, call)
		groups[i].arguments += len(call.Args)
	}
	return groups
}

// fits reports whether the call can join a group: it is for the same script, which can decide several requests,
// and the arguments of all stay within mostArguments. In a cluster it must also be for the same pool or bucket,
// because only the keys of one pool or bucket are sure to be on one server.
func (l *lane) fits(g group, call *laneCall) bool {
	return g.script.many && g.script.Script == call.script.Script &&
		g.arguments+len(call.Args) <= mostArguments &&
		(!l.slots || g.calls[0].Keys[0] == call.Keys[0])
}

func (g *group) command(ctx context.Context, server string) *redis.Cmd {
	requests := make([]Request, len(g.calls))
	for i, call := range g.calls {
		requests[i] = call.Request
	}
	keys, args := g.script.arguments(server, requests)
	all := make([]any, 0, 3+len(keys)+len(args))
	all = append(all, "evalsha", g.script.Hash(), len(keys))
	for _, key := range keys {
		all = append(all, key)
	}
	return redis.NewCmd(ctx, append(all, args...)...)
}

// read decodes the server's answer, which arrived at the time at.
func (g *group) read(at time.Time) {
	g.answer.at = at
	values, err := g.cmd.Slice()
	if err == nil {
		g.values, g.answer.fenced, err = g.script.answers(values, len(g.calls))
	}
	g.answer.err = err
}

// tell sends each call its answer.
func (g *group) tell() {
	for i, call := range g.calls {
		answer := g.answer
		if answer.err == nil {
			answer.values, answer.err = g.values[i], failure(g.values[i])
		}
		call.done <- answer
	}
}

// notHere are prefixes of server errors that are not final: the call may succeed on another server,
// later, or with the script's text.
var notHere = []string{"NOSCRIPT", "MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", "READONLY", "MASTERDOWN", "LOADING", "NOAUTH"}

// refused reports whether a server has answered a call with an error that is final.
func refused(err error) bool {
	if e := redis.Error(nil); !errors.As(err, &e) {
		return false
	}
	return !slices.ContainsFunc(notHere, func(prefix string) bool { return redis.HasErrorPrefix(err, prefix) })
}

// connect opens the connection if there is none, and asks the server for its run id. If the server
// does not tell it, each script asks.
func (l *lane) connect(ctx context.Context) error {
	if l.conn != nil {
		return nil
	}
	conn := l.client.Conn()
	ctx, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	text, err := conn.Info(ctx, "server").Result()
	if err != nil && !refused(err) {
		_ = conn.Close()
		return err
	}
	info := map[string]string{}
	connection.ReadInfo(text, info)
	l.conn, l.server = conn, info["run_id"]
	return nil
}

func (l *lane) disconnect() {
	if l.conn != nil {
		_ = l.conn.Close()
		l.conn, l.server = nil, ""
	}
}

// lanes are the lanes of a Client, one to each server.
type lanes struct {
	owner    *Client
	mu       sync.Mutex
	byServer map[string]*lane
	closed   bool
	running  sync.WaitGroup // includes replaced lanes, and looks
}

// to returns the lane to the server of master, and begins one if there is none. slots says that the server is
// one of a cluster. After close it returns a closed lane, or nil.
func (ls *lanes) to(master *redis.Client, slots bool) *lane {
	address := master.Options().Addr
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.byServer[address]
	if ls.closed {
		return l
	}
	if l != nil && l.master == master {
		l.used = time.Now()
		return l
	}
	ls.leave()
	if l != nil {
		l.close() // Redis has another client, or a cluster's view of its servers has changed
	}
	if ls.byServer == nil {
		ls.byServer = map[string]*lane{}
	}
	l = newLane(ls.owner, master, slots)
	l.used = time.Now()
	ls.byServer[address] = l
	ls.running.Go(l.run)
	return l
}

// unused is the time without requests after which leave closes a lane. A server that is asked again
// later gets another lane.
const unused = time.Minute

// leave closes the lanes that were not used for the time unused, such as those to servers that have left a
// cluster. It is called, with the mutex held, before another lane begins.
func (ls *lanes) leave() {
	for address, l := range ls.byServer {
		if time.Since(l.used) > unused {
			l.close()
			delete(ls.byServer, address)
		}
	}
}

// close closes all lanes, and returns once their queues have been sent.
func (ls *lanes) close() {
	ls.mu.Lock()
	ls.closed = true
	for _, l := range ls.byServer {
		l.close()
	}
	ls.mu.Unlock()
	ls.running.Wait()
}

// overLane sends a request over the lane to the server that has the keys. If the error is not final
// (see refused), the caller repeats the request without a lane: the client then finds the server anew,
// loads the script, and follows a cluster's redirection.
func (c *Client) overLane(ctx context.Context, sc Script, r Request) laneAnswer {
	l, err := c.laneFor(ctx, r.Keys[0])
	if err != nil {
		return laneAnswer{err: err}
	}
	return l.do(ctx, sc, r)
}

func (c *Client) laneFor(ctx context.Context, key string) (*lane, error) {
	if c.lanes == nil {
		return nil, errNoLane
	}
	var l *lane
	switch client := c.Redis().(type) {
	case *redis.Client:
		l = c.lanes.to(client, false)
	case *redis.ClusterClient:
		master, err := client.MasterForKey(ctx, key)
		if err != nil {
			return nil, err
		}
		l = c.lanes.to(master, true)
	}
	if l == nil {
		return nil, errNoLane
	}
	return l, nil
}
