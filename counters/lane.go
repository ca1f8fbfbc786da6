package counters

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
)

// mostAtOnce bounds the requests of one round trip, so that no caller waits long
// for those that came with it.
const mostAtOnce = 256

// mostArguments bounds those of one call of a script for several requests. The server
// takes a million; a request that has more than these goes alone.
const mostArguments = 20_000

// connectLimit bounds how long callers wait for a connection before they go on without.
const connectLimit = 5 * time.Second

// errNoLane says that a call was not sent.
var errNoLane = errors.New("no connection for it")

// lane is one connection to one server for what many callers ask at once. Whatever
// has gathered while a round trip was under way goes with the next one, so that the
// cost of a round trip is shared by as many as there are callers.
//
// A lane knows which run of the server its connection leads to: it asks once, on
// this very connection, and never sends anything over another one. A script that
// comes over a lane is therefore spared the question (see lua.Gate).
type lane struct {
	master *redis.Client // whose server it leads to
	slots  bool          // the server is one of a cluster
	client *redis.Client // separate, so that it takes no connection from other callers
	wake   chan struct{}

	mu     sync.Mutex
	queue  []*laneCall
	closed bool

	used time.Time // of the lanes: when it was asked for last

	// Of the goroutine that sends.
	conn   *redis.Conn
	server string // the run that conn leads to
}

// laneCall is one request on its way.
type laneCall struct {
	ctx    context.Context
	script script
	request
	done chan laneAnswer
}

// laneAnswer has what a script answered to a request, or why there is no answer.
type laneAnswer struct {
	values any
	fenced map[string]string // the fenced epochs of all places that the call was about, by their metas
	err    error
}

func newLane(master *redis.Client, slots bool) *lane {
	o := *master.Options()
	o.PoolSize, o.MinIdleConns, o.MaxRetries = 1, 0, -1
	// The master's own, behind a pointer, is written while it connects.
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return &lane{master: master, slots: slots, client: redis.NewClient(&o), wake: make(chan struct{}, 1)}
}

// do sends a request and waits for its answer. After an error it may have been
// executed or not.
func (l *lane) do(ctx context.Context, sc script, r request) laneAnswer {
	call := &laneCall{ctx: ctx, script: sc, request: r, done: make(chan laneAnswer, 1)}
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

// close ends the lane when what is queued has been sent.
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
		runtime.Gosched() // callers that are about to ask come along
		for batch := l.take(); len(batch) > 0; batch = l.take() {
			l.send(batch)
			runtime.Gosched()
		}
	}
}

// take returns the calls that wait, without those whose callers have gone; none is the
// end of the queue.
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

// send makes one round trip. A connection that failed, or whose server is not the one
// to ask any more, is not used again.
func (l *lane) send(batch []*laneCall) {
	ctx := context.Background() // the callers' own must not end what others are in
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
	lost := false
	for _, g := range groups {
		err := g.cmd.Err()
		lost = lost || err != nil && !refused(err) && !redis.HasErrorPrefix(err, "NOSCRIPT")
		g.tell()
	}
	if lost {
		l.disconnect()
	}
}

// group is requests that one call of a script decides.
type group struct {
	script    script
	calls     []*laneCall
	arguments int
	cmd       *redis.Cmd
}

// together groups what one call can decide.
func (l *lane) together(batch []*laneCall) []group {
	var groups []group
	for _, call := range batch {
		i := slices.IndexFunc(groups, func(g group) bool { return l.fits(g, call) })
		if i < 0 {
			i = len(groups)
			groups = append(groups, group{script: call.script})
		}
		groups[i].calls = append(groups[i].calls, call)
		groups[i].arguments += len(call.args)
	}
	return groups
}

// fits reports whether one call decides a further request: it is to the same script, and in
// a cluster about the same pool or bucket, whose keys alone are sure to be on one server.
func (l *lane) fits(g group, call *laneCall) bool {
	return g.script.many && g.script.Script == call.script.Script &&
		g.arguments+len(call.args) <= mostArguments &&
		(!l.slots || g.calls[0].keys[0] == call.keys[0])
}

func (g *group) command(ctx context.Context, server string) *redis.Cmd {
	requests := make([]request, len(g.calls))
	for i, call := range g.calls {
		requests[i] = call.request
	}
	keys, args := g.script.arguments(server, requests)
	all := make([]any, 0, 3+len(keys)+len(args))
	all = append(all, "evalsha", g.script.Hash(), len(keys))
	for _, key := range keys {
		all = append(all, key)
	}
	return redis.NewCmd(ctx, append(all, args...)...)
}

// tell sends each call its answer.
func (g *group) tell() {
	values, err := g.cmd.Slice()
	var answers []any
	var fenced map[string]string
	if err == nil {
		answers, fenced, err = g.script.answers(values, len(g.calls))
	}
	for i, call := range g.calls {
		if err != nil {
			call.done <- laneAnswer{err: err}
			continue
		}
		call.done <- laneAnswer{values: answers[i], fenced: fenced, err: failure(answers[i])}
	}
}

// notHere begins the errors of a server that another one, a later moment or the
// script's text would spare. The others would come again.
var notHere = []string{"NOSCRIPT", "MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", "READONLY", "MASTERDOWN", "LOADING"}

// refused reports whether a server has answered a call with an error that is final.
func refused(err error) bool {
	if e := redis.Error(nil); !errors.As(err, &e) {
		return false
	}
	return !slices.ContainsFunc(notHere, func(prefix string) bool { return redis.HasErrorPrefix(err, prefix) })
}

// connect makes sure of a connection and of the run of its server. A server that
// does not tell it is asked by each script.
func (l *lane) connect(ctx context.Context) error {
	if l.conn != nil {
		return nil
	}
	conn := l.client.Conn()
	ctx, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	text, err := conn.Info(ctx, "server").Result()
	if e := redis.Error(nil); err != nil && !errors.As(err, &e) {
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

// lanes are those of a store, one to each server that it asks.
type lanes struct {
	mu       sync.Mutex
	byServer map[string]*lane
	closed   bool
	running  sync.WaitGroup // also those that another one has replaced
}

// to returns the lane to a server, nil once they are closed.
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
		l.close() // a cluster's view of its servers has changed
	}
	if ls.byServer == nil {
		ls.byServer = map[string]*lane{}
	}
	l = newLane(master, slots)
	l.used = time.Now()
	ls.byServer[address] = l
	ls.running.Go(l.run)
	return l
}

// unused is how long no caller has asked a server that has left the cluster. One that has not
// gets another lane when it is asked again.
const unused = time.Minute

// leave closes the lanes to servers that no caller asks any more: it is called where another
// server has come.
func (ls *lanes) leave() {
	for address, l := range ls.byServer {
		if time.Since(l.used) > unused {
			l.close()
			delete(ls.byServer, address)
		}
	}
}

// close returns when what is queued on every lane has been sent.
func (ls *lanes) close() {
	ls.mu.Lock()
	ls.closed = true
	for _, l := range ls.byServer {
		l.close()
	}
	ls.mu.Unlock()
	ls.running.Wait()
}

// overLane sends a request to the server that has the keys. Unless the server has
// refused it, the caller sends it again after an error, without a lane: the client then
// finds the server anew, loads the script, and follows a cluster's redirection.
func (s *Store) overLane(ctx context.Context, sc script, r request) laneAnswer {
	l, err := s.laneFor(ctx, r.keys[0])
	if err != nil {
		return laneAnswer{err: err}
	}
	return l.do(ctx, sc, r)
}

func (s *Store) laneFor(ctx context.Context, key string) (*lane, error) {
	if s.lanes == nil {
		return nil, errNoLane
	}
	var l *lane
	switch client := s.client().(type) {
	case *redis.Client:
		l = s.lanes.to(client, false)
	case *redis.ClusterClient:
		master, err := client.MasterForKey(ctx, key)
		if err != nil {
			return nil, err
		}
		l = s.lanes.to(master, true)
	}
	if l == nil {
		return nil, errNoLane
	}
	return l, nil
}
