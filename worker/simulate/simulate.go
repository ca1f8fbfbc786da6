package simulate

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/engine/policy"
	"github.com/hap-worker/hap-worker/engine/terms"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/dead"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker"
	"github.com/hap-worker/hap-worker/worker/memory"
	"github.com/hap-worker/hap-worker/worker/observe"
	"github.com/hap-worker/hap-worker/worker/ranges"
)

// Terms configure the decisions.
type Terms struct {
	Decisions *terms.Decisions
	// Policy chooses implementations. Defaults to none, which refuses every interface.
	Policy *policy.Snapshot
	// AnyInterface drops the interface that a request asks for: for a simulation without the policy.
	AnyInterface bool
	// Networks has the rules of network blocks. Defaults to none, which allots no blocks.
	Networks *network.Config
}

// Simulator handles events one after the other. It is not safe for concurrent use.
type Simulator struct {
	worker   *worker.Worker
	terms    Terms
	counters *memory.Counters
	gardener *memory.Gardener
	room     *storage.WaitingRoom
	subjects events.Subjects
	clock    time.Time
	replies  replies
	faults   faults
	handled  uint64
	unnamed  map[string]bool // ids that were made for events without an id
	restored map[string]bool // ids of waiting requests of the state, whose events are not known
}

// New returns a simulator of the landscape that a state describes. Its clock stands at the state's TakenAt,
// or at the present time if that is zero. It fails if the state is invalid.
func New(ctx context.Context, state *State, by Terms) (*Simulator, error) {
	if err := state.check(); err != nil {
		return nil, err
	}
	subjects, err := events.NewSubjects("")
	if err != nil {
		return nil, err
	}
	broker, err := memory.NewBroker(storage.Options{})
	if err != nil {
		return nil, err
	}
	s := &Simulator{
		terms: by, counters: memory.NewCounters(), room: storage.NewWaitingRoomOn(broker, subjects), subjects: subjects,
		gardener: memory.NewGardener("", bindingKind, state.bindings()...), clock: state.TakenAt,
		unnamed: map[string]bool{}, restored: map[string]bool{},
	}
	if s.clock.IsZero() {
		s.clock = time.Now()
	}
	if err := state.install(ctx, s.counters); err != nil {
		return nil, err
	}
	for _, pool := range s.gardener.Pools() {
		builder{s.counters}.Wanted(pool.Name())
	}
	options := worker.Options{
		Subjects: subjects, Ledger: storage.NewLedgerOn(broker, subjects, source), Dead: dead.NewLettersOn(broker, subjects),
		Room: s.room, Copies: &s.replies, Counters: s.counters, Gardener: s.gardener, Rebuild: builder{s.counters},
		Rules: terms.NewLive(by.Decisions), Observer: observe.Observer{OnEvent: s.faults.hear}, Kind: bindingKind,
		Concurrency: 1, Now: func() time.Time { return s.clock },
	}
	if by.Policy != nil {
		options.Policies = fixed{policy: by.Policy}
	}
	if by.Networks != nil {
		blocks, err := state.ranges(ctx, by.Networks)
		if err != nil {
			return nil, err
		}
		options.Ranges = &ranges.Allotter{Blocks: blocks, Networks: func() *network.Config { return by.Networks }, Late: unasked{}, Rebuild: options.Rebuild}
	}
	s.worker = worker.New(options)
	return s, s.enter(ctx, state)
}

const (
	// bindingKind is a kind that Shoots name directly: a State does not record which bindings refer to a Secret.
	bindingKind = "CredentialsBinding"
	source      = "/simulation"
)

// Types are the types of events that can be simulated: those that change the allotment in Redis.
func Types() []string {
	var names []string
	for _, info := range events.Types() {
		if info.Allots {
			names = append(names, string(info.Type))
		}
	}
	return names
}

// First serves those of the state's waiting requests for which there is room. Call it before the first Do.
func (s *Simulator) First(ctx context.Context) ([]Result, error) {
	s.worker.Wake()
	return s.serve(ctx)
}

// Do handles an event, serves the waiting requests that it made room for, and returns its answer. It returns an
// error if the event cannot be encoded or is not answered; for a type that is not simulated, it is InvalidEvent.
func (s *Simulator) Do(ctx context.Context, e events.Event) (Result, error) {
	if !e.Type.Info().Allots {
		return Result{}, &engine.Error{
			Code: engine.CodeInvalidEvent, Err: fmt.Errorf("events of type %s are not simulated", e.Type),
			Hint: "simulate " + strings.Join(Types(), ", ") + "; hapctl policy resolve does the rest",
		}
	}
	s.handled++
	if e.ID == "" {
		e.ID = fmt.Sprintf("simulated-%d", s.handled)
		s.unnamed[e.ID] = true
	}
	e = s.answeredHere(e)
	e.Source = cmp.Or(e.Source, source)
	msg, err := events.Publication(s.subjects, e)
	if err != nil {
		return Result{}, err
	}
	s.worker.Handle(ctx, message{of: msg, sequence: s.handled})
	if err := s.faults.take(); err != nil {
		return Result{}, err
	}
	r := s.result(e.Type, answerTo(e.ID, s.replies.take()))
	if r.Binding == "" && e.Release != nil {
		r.Binding = e.Release.Binding
		if b, known := s.gardener.Cached(r.Binding); known {
			r.Pool = b.Pool().Name()
		}
	}
	r.Serves, err = s.serve(ctx)
	return r, err
}

// answeredHere returns a copy of the event whose reply is copied to the simulation's inbox only. With
// AnyInterface, the copy asks for no interface.
func (s *Simulator) answeredHere(e events.Event) events.Event {
	switch {
	case e.Provision != nil:
		p := *e.Provision
		p.ReplyTo = inbox
		if s.terms.AnyInterface {
			p.Interface = nil
		}
		e.Provision = &p
	case e.Deprovision != nil:
		d := *e.Deprovision
		d.ReplyTo = inbox
		e.Deprovision = &d
	case e.Release != nil:
		r := *e.Release
		r.ReplyTo = inbox
		e.Release = &r
	}
	return e
}

// answerTo returns the last reply to the request with an id, or the zero Reply if there is none. Handling one
// request may also answer others: a departure answers the waiting provision of its runtime.
func answerTo(id string, all []events.Reply) events.Reply {
	var last events.Reply
	for _, r := range all {
		if r.RequestID == id {
			last = r
		}
	}
	return last
}

// serve serves waiting requests if something has woken the worker, and returns the answers to those that were
// served.
func (s *Simulator) serve(ctx context.Context) ([]Result, error) {
	if err := s.worker.Serve(ctx); err != nil {
		return nil, err
	}
	if err := s.faults.take(); err != nil {
		return nil, err
	}
	var served []Result
	for _, reply := range s.replies.take() {
		r := s.result(events.TypeProvision, reply)
		r.Served = true
		served = append(served, r)
	}
	return served, nil
}

// Bindings are the bindings as they are now, in order of names.
func (s *Simulator) Bindings() []engine.Binding {
	var all []engine.Binding
	for b := range s.gardener.All() {
		all = append(all, b)
	}
	return all
}

// Pools are the names of the pools, in order.
func (s *Simulator) Pools(ctx context.Context) ([]string, error) { return s.counters.Pools(ctx) }

// Record returns the current record of a binding in the counters.
func (s *Simulator) Record(ctx context.Context, pool, binding string) (account.Record, error) {
	return s.counters.Binding(ctx, pool, binding)
}

// Runtimes are the runtimes of a pool now, by id.
func (s *Simulator) Runtimes(ctx context.Context, pool string) ([]account.NamedRuntime, error) {
	var all []account.NamedRuntime
	for rt, err := range s.counters.Runtimes(ctx, pool) {
		if err != nil {
			return nil, err
		}
		all = append(all, rt)
	}
	return all, nil
}

// Waiting is the number of runtimes that wait for a pool now.
func (s *Simulator) Waiting(ctx context.Context, pool string) (int, error) {
	status, err := s.counters.Status(ctx, pool)
	return status.Waiting, err
}
