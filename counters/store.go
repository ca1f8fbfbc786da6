// Package counters keeps the present allotment in Redis: which tenant has which binding, how many
// runtimes are on it, which runtime is where. Every decision is one Lua script, so decisions on one
// pool are serial. Package engine/account models each of them in Go.
//
// Whatever Redis loses is rebuilt from ledger, labels and Shoots (BeginRebuild, Install). Until then
// methods that decide or read records return account.ErrNotBuilt. An error that a method does not name
// says that a record or a reply cannot be read, or comes from the check of Fence. docs/redis.md describes keys
// and records, docs/protocol.md the rules.
//
// Every method that changes anything is idempotent: if the reply of a script is lost, go-redis sends
// the script again.
package counters

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hap-worker/hap-worker/counters/connection"
	"github.com/hap-worker/hap-worker/counters/script"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
)

// Store runs the account protocol on Redis. It is safe for concurrent use.
type Store struct {
	open   func() (redis.UniversalClient, error) // nil: the client is the caller's
	at     atomic.Pointer[redis.UniversalClient]
	prefix string
	script script.Client
	keys   keys
}

// New returns a Store that uses the caller's client. prefix begins every key; ""
// stands for DefaultPrefix. Set ContextTimeoutEnabled on the client: otherwise a
// call outlives its context.
func New(client redis.UniversalClient, prefix string) *Store {
	if prefix == "" {
		prefix = DefaultPrefix
	}
	s := &Store{prefix: prefix}
	s.at.Store(&client)
	s.script.Redis = s.client
	return s
}

func (s *Store) client() redis.UniversalClient { return *s.at.Load() }

// Reconnect replaces the connections, so that new ones find the present master. Calls in flight on the
// old ones may fail, and may be repeated. On a Store that New returned, it does nothing.
func (s *Store) Reconnect() {
	if s.open == nil {
		return
	}
	client, err := s.open()
	if err != nil {
		return // impossible: Open has read the same options
	}
	old := s.at.Swap(&client)
	_ = (*old).Close()
}

// Open returns a Store with its own connections; it makes none before the first call. prefix is as for
// New. The error says that there is no URL, or which URL cannot be read.
func Open(o connection.Options, prefix string) (*Store, error) {
	client, err := o.Client()
	if err != nil {
		return nil, err
	}
	s := New(client, prefix)
	s.open = o.Client
	if o.SentinelMaster == "" {
		// With sentinels there are no lanes: at a fail-over the client replaces only its own connections.
		s.OverLanes()
	}
	return s, nil
}

// OverLanes makes callers share one connection to each server, which batches concurrent requests into
// one round trip. EndLanes closes these connections.
func (s *Store) OverLanes() { s.script.OverLanes() }

// EndLanes closes the connections of OverLanes; later calls use connections of the client.
func (s *Store) EndLanes() { s.script.EndLanes() }

// OnCall registers a function that is called after every script call but those of a Record, with the
// script's name and its duration. Many goroutines call it concurrently. Register it before the first call.
func (s *Store) OnCall(f func(ctx context.Context, op string, took time.Duration)) {
	s.script.OnCall = f
}

// Fence registers the function that reads which epochs are in force (rule 15). After a script has answered for
// a place whose epoch is fenced (account.Fenced), look is called; if its check fails, the method returns that
// error instead of the answer. look is not called after scripts whose results permit nothing outside of Redis
// (account.Contained), nor by Epochs, Built, Time, Discard, Depose and the methods of a rebuild. Register it before
// the first call.
func (s *Store) Fence(look func(context.Context) account.EpochCheck) { s.script.Look = look }

// Close closes the connections, also those of a client that New was given.
func (s *Store) Close() error {
	s.EndLanes()
	return s.client().Close()
}

// Connect checks the settings of every master, and returns warnings about unsafe settings. The error is
// an *engine.Error. It wraps connection.ErrEvicts if a server evicts keys; on a Store that Open
// returned, each later connection refuses such a server, too.
func (s *Store) Connect(ctx context.Context) (warnings []string, err error) {
	var mu sync.Mutex // the masters of a cluster are asked at once
	err = s.eachMaster(ctx, func(ctx context.Context, c redis.Cmdable) error {
		found, err := connection.Check(ctx, c)
		mu.Lock()
		defer mu.Unlock()
		warnings = append(warnings, found...)
		return err
	})
	if e := (*engine.Error)(nil); err != nil && !errors.As(err, &e) {
		err = &engine.Error{
			Code: engine.CodeInternal, Op: "connecting to Redis", Err: err,
			Hint: "check redis.url and that the server is up",
		}
	}
	return warnings, err
}

// run sends a request about a place (a pool, a bucket or a site) to a script. Errors as of
// script.Client.Ask.
func (s *Store) run(ctx context.Context, sc script.Script, place string, keys []string, args ...any) (*script.Reply, error) {
	return s.script.Ask(ctx, sc, place, script.Request{Keys: keys, Args: args})
}
