// Package counters keeps in Redis what is allotted now: which tenant has which
// binding, how many runtimes are on it, which runtime is where. Every decision
// is one Lua script, so decisions on one pool are serial, and package
// engine/account says in plain Go what each of them does.
//
// Redis is the truth of the present and nothing else: what it loses is rebuilt
// from ledger, labels and Shoots (BeginRebuild, Install), and until then every
// method answers account.ErrNotBuilt. Keys and records are described in
// docs/redis.md, the rules in docs/protocol.md.
//
// Every method that changes anything can be repeated: go-redis sends a script
// again whose reply was lost.
package counters

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hap-worker/hap-worker/counters/connection"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
)

// Store runs the account protocol on Redis. It is safe for concurrent use.
type Store struct {
	open   func() (redis.UniversalClient, error) // nil: the client is the caller's
	at     atomic.Pointer[redis.UniversalClient]
	prefix string
	lanes  *lanes                                                   // nil: every call takes a connection of client
	onCall func(ctx context.Context, op string, took time.Duration) // may be nil
	keys   keys
	// inForce is asked whether decisions of fenced epochs may have effects; nil where no record is kept.
	inForce func(context.Context, account.Epochs) error
}

// New returns a Store on a client of the caller's. prefix begins every key, ""
// is DefaultPrefix. Set ContextTimeoutEnabled on the client: otherwise a call
// outlives its context.
func New(client redis.UniversalClient, prefix string) *Store {
	if prefix == "" {
		prefix = DefaultPrefix
	}
	s := &Store{prefix: prefix}
	s.at.Store(&client)
	return s
}

func (s *Store) client() redis.UniversalClient { return *s.at.Load() }

// Reconnect begins with new connections, which find the master that there is now. What is
// under way on the old ones fails, and may be repeated. A Store on a client of the
// caller's keeps its connections.
func (s *Store) Reconnect() {
	if s.open == nil {
		return
	}
	client, err := s.open()
	if err != nil {
		return // not for options that were read once before
	}
	old := s.at.Swap(&client)
	_ = (*old).Close()
}

// Open returns a Store with its own connections; none is made before the first
// call. prefix is that of New. The error says which URL cannot be read.
func Open(o connection.Options, prefix string) (*Store, error) {
	client, err := o.Client()
	if err != nil {
		return nil, err
	}
	s := New(client, prefix)
	s.open = o.Client
	if o.SentinelMaster == "" {
		// Of a fail-over only the connections of the client itself are told.
		s.OverLanes()
	}
	return s, nil
}

// OverLanes lets the callers share one connection to each server, which gathers what
// they ask at the same time into one round trip. EndLanes closes it.
func (s *Store) OverLanes() { s.lanes = &lanes{} }

// EndLanes ends what OverLanes began: later calls take connections of the client.
func (s *Store) EndLanes() {
	if s.lanes != nil {
		s.lanes.close()
	}
}

// OnCall registers a function that is told of every round trip of a script, by
// the script's name. It is called by many goroutines at once. Register before
// the first call.
func (s *Store) OnCall(f func(ctx context.Context, op string, took time.Duration)) { s.onCall = f }

// Fence registers who says whether epochs are in force (rule 15): its error is that of the
// call whose decision they are. Register before the first call.
func (s *Store) Fence(inForce func(context.Context, account.Epochs) error) { s.inForce = inForce }

// Close closes the connections.
func (s *Store) Close() error {
	s.EndLanes()
	return s.client().Close()
}

// Connect checks that Redis can be relied on and returns warnings about what
// should be better. A server that evicts keys is connection.ErrEvicts; each later connection refuses
// it too.
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
