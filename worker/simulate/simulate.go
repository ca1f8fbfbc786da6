package simulate

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/rule"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker/config"
)

// Cache suggests bindings, and is told of those that change.
type Cache interface {
	// Claimable gives bindings that carry the tenant's name and up to n unclaimed
	// ones, best first, and whether these are all.
	Claimable(pool engine.Pool, tenant string, internalTenant bool, n int) ([]engine.Binding, bool)
	Shared(pool engine.Pool) []engine.Binding
	Barred(pool engine.Pool, tenant string, internalTenant bool) []string
	Cached(name string) (engine.Binding, bool)
	Set(b engine.Binding)
}

// Simulator decides events one after the other. It is not safe for concurrent use.
type Simulator struct {
	decisions *config.Decisions
	cache     Cache
	pools     map[string]*account.Pool
	places    map[string]string // pool by runtime
	gone      map[string]bool
	asked     map[string]events.Provision // by runtime, of those that wait in the simulation
}

// Result is what an event would be answered with.
type Result struct {
	RequestID  string              `json:"requestID,omitempty"`
	Type       events.Type         `json:"type"`
	RuntimeID  string              `json:"runtimeID,omitempty"`
	Tenant     string              `json:"tenant,omitempty"`
	Status     events.Status       `json:"status"`
	Served     bool                `json:"served,omitempty"` // it waited, and an event before it made room
	Pool       string              `json:"pool,omitempty"`
	Rule       string              `json:"rule,omitempty"`
	RuleNumber int                 `json:"ruleNumber,omitempty"`
	Binding    string              `json:"binding,omitempty"`
	Claimed    bool                `json:"claimed,omitempty"`
	Clusters   *int                `json:"clusters,omitempty"`
	Limit      int                 `json:"limit,omitempty"`
	Position   int                 `json:"position,omitempty"`
	Dirty      bool                `json:"markedDirty,omitempty"`
	Considered []events.Considered `json:"considered,omitempty"`
	Error      *events.ReplyError  `json:"error,omitempty"`
	Serves     []Result            `json:"serves,omitempty"` // requests that waited and that the event made room for
}

// New gives a simulator on copies of the pools.
func New(pools map[string]*account.Pool, gone []string, decisions *config.Decisions, cache Cache) *Simulator {
	s := &Simulator{
		decisions: decisions, cache: cache, pools: map[string]*account.Pool{},
		places: map[string]string{}, gone: map[string]bool{}, asked: map[string]events.Provision{},
	}
	for _, runtime := range gone {
		s.gone[runtime] = true
	}
	for name, pool := range pools {
		s.pools[name] = pool.Clone()
		for _, rt := range pool.Runtimes() {
			s.places[rt.ID] = name
		}
	}
	return s
}

// Pools are the pools as they are now, by name.
func (s *Simulator) Pools() map[string]*account.Pool { return maps.Clone(s.pools) }

// Do decides an event and gives its answer. The error is InvalidEvent for a type
// that is not simulated.
func (s *Simulator) Do(e events.Event) (Result, error) {
	switch e.Type {
	case events.TypeProvision:
		return s.provision(e.ID, *e.Provision, false)
	case events.TypeDeprovision:
		return s.deprovision(e)
	case events.TypeRelease:
		return s.release(e)
	default:
		return Result{}, &engine.Error{
			Code: engine.CodeInvalidEvent, Err: fmt.Errorf("events of type %s are not simulated", e.Type),
			Hint: "simulate provision, deprovision and release; hapctl policy resolve does the rest",
		}
	}
}

func rejected(r Result, err error) Result {
	code := engine.CodeOf(err)
	r.Status = events.StatusRejected
	r.Error = &events.ReplyError{Code: code, Message: err.Error(), Retryable: code.Retryable()}
	return r
}

func (s *Simulator) pool(name string) (*account.Pool, error) {
	if s.pools[name] == nil {
		pool, err := built(account.Snapshot{}, false)
		if err != nil {
			return nil, err
		}
		s.pools[name] = pool
	}
	return s.pools[name], nil
}

func (s *Simulator) provision(id string, p events.Provision, inTurn bool) (Result, error) {
	r := Result{RequestID: id, Type: events.TypeProvision, RuntimeID: p.RuntimeID, Tenant: p.GlobalAccountID, Served: inTurn}
	match, err := s.decisions.Rules().Match(rule.Request{
		Plan: p.Plan, PlatformRegion: p.PlatformRegion, HyperscalerRegion: p.HyperscalerRegion, Provider: p.Provider, Tenant: p.GlobalAccountID,
	})
	if err != nil {
		return rejected(r, err), nil
	}
	r.Rule, r.RuleNumber = match.Rule, match.RuleNumber
	at, terms := match.Pool, s.decisions.Terms(p.GlobalAccountID, match.Provider)
	if s.gone[p.RuntimeID] {
		return rejected(r, superseded(p.RuntimeID)), nil
	}
	if name := s.places[p.RuntimeID]; name != "" && name != at.Name() {
		at, r.Rule, r.RuleNumber = engine.ParsePool(name), "", 0 // I10
	}
	r.Pool = at.Name()
	s.places[p.RuntimeID] = r.Pool
	d, err := s.assign(at, p.RuntimeID, id, p.GlobalAccountID, terms, inTurn)
	if err != nil {
		return r, err
	}
	if d.Outcome == account.Waiting {
		s.asked[p.RuntimeID] = p
	}
	return s.told(r, d, terms), nil
}

func superseded(runtime string) error {
	return &engine.Error{Code: engine.CodeSuperseded, Err: fmt.Errorf("runtime %s was deprovisioned before", runtime), Hint: "provision a new runtime"}
}

// assign decides, and writes the label of a new claim.
func (s *Simulator) assign(at engine.Pool, runtime, request, tenant string, terms account.Terms, inTurn bool) (account.Decision, error) {
	pool, err := s.pool(at.Name())
	if err != nil {
		return account.Decision{}, err
	}
	internal := s.decisions.Internal(tenant)
	ask := account.Request{
		Runtime: runtime, Request: request, Tenant: tenant, Shared: at.Shared, Terms: terms, InTurn: inTurn,
		All: true, Barred: s.cache.Barred(at, tenant, internal),
	}
	seen, _ := s.cache.Claimable(at, tenant, internal, math.MaxInt)
	if at.Shared {
		seen = s.cache.Shared(at)
	}
	for _, b := range seen {
		ask.Seen = append(ask.Seen, account.Seen{Binding: b.Name, Generation: b.Generation, Mine: b.Tenant == tenant && !at.Shared})
	}
	d, err := pool.Assign(ask)
	if err != nil || d.Outcome != account.Assigned || d.Confirmed {
		return d, err
	}
	if b, known := s.cache.Cached(d.Binding); known {
		b.Tenant, b.Generation = tenant, d.Generation
		s.cache.Set(b)
	}
	_, err = pool.Confirm(d.Claim(runtime))
	return d, err
}

// told is the answer that a decision comes to.
func (s *Simulator) told(r Result, d account.Decision, terms account.Terms) Result {
	for _, c := range d.Considered {
		r.Considered = append(r.Considered, events.Considered{Binding: c.Binding, Clusters: c.Clusters, Verdict: string(c.Verdict)})
	}
	switch d.Outcome {
	case account.Assigned:
		r.Status, r.Binding, r.Clusters, r.Claimed = events.StatusAssigned, d.Binding, &d.Count, d.Origin == account.Claimed && !d.Repeated
		if terms.Several && !engine.ParsePool(r.Pool).Shared {
			r.Limit = terms.Limit
		}
	case account.Waiting:
		r.Status, r.Position = events.StatusWaiting, d.Position
	case account.Refused:
		return rejected(r, &engine.Error{Code: engine.CodePoolExhausted, Err: fmt.Errorf("request %s was refused before", r.RequestID), Hint: "ask under a new id"})
	default:
		return rejected(r, superseded(r.RuntimeID))
	}
	return r
}

func (s *Simulator) deprovision(e events.Event) (Result, error) {
	id := e.Deprovision.RuntimeID
	r := Result{RequestID: e.ID, Type: e.Type, RuntimeID: id, Status: events.StatusReleased}
	name := s.places[id]
	if name == "" {
		s.gone[id] = true
		return r, nil
	}
	pool, err := s.pool(name)
	if err != nil {
		return r, err
	}
	left, err := pool.ReleaseRuntime(id)
	if err != nil {
		return r, err
	}
	delete(s.asked, id)
	r.Pool, r.Binding, r.Tenant = name, left.Binding, left.Tenant
	if left.Binding != "" {
		r.Clusters = &left.Count
	}
	if left.State == account.Draining && left.Count == 0 {
		if r.Dirty, err = s.dirty(pool, left); err != nil {
			return r, err
		}
	}
	r.Serves, err = s.serve(name)
	return r, err
}

// dirty marks an account that its last cluster has left, as if no Shoot referred
// to it.
func (s *Simulator) dirty(pool *account.Pool, left account.Departure) (bool, error) {
	b, known := s.cache.Cached(left.Binding)
	if !known || b.Internal {
		return false, nil
	}
	permit, err := pool.BeginDirtying(left.Binding, left.Generation)
	if err != nil || !permit.Given {
		return false, err
	}
	if permit.Pristine {
		b.Tenant = ""
		s.cache.Set(b)
		_, err = pool.MarkFreed(left.Binding, left.Generation)
		return false, err
	}
	b.Dirty, b.Tenant, b.Generation = true, left.Tenant, left.Generation
	s.cache.Set(b)
	return true, nil
}

func (s *Simulator) release(e events.Event) (Result, error) {
	r := Result{RequestID: e.ID, Type: e.Type, Binding: e.Release.Binding, Status: events.StatusReturned}
	b, known := s.cache.Cached(e.Release.Binding)
	r.Pool = b.Pool().Name()
	refuse := func(code engine.Code, text string, args ...any) (Result, error) {
		return rejected(r, &engine.Error{Code: code, Err: fmt.Errorf(text, args...)}), nil
	}
	if !known {
		r.Pool = ""
		return refuse(engine.CodeUnknownBinding, "there is no binding %s", e.Release.Binding)
	}
	pool, err := s.pool(r.Pool)
	if err != nil {
		return r, err
	}
	count, err := pool.InUse(b.Name)
	switch g := e.Release.Generation; {
	case err != nil:
		return r, err
	case g != nil && *g != b.Generation:
		return refuse(engine.CodeStaleRelease, "binding %s is at generation %d, the release is for %d", b.Name, b.Generation, *g)
	case !b.Dirty:
		return refuse(engine.CodeNotDirty, "binding %s is not marked dirty", b.Name)
	case count > 0:
		return refuse(engine.CodeBindingInUse, "binding %s still has %d clusters", b.Name, count)
	}
	b.Dirty, b.Tenant = false, ""
	s.cache.Set(b)
	if _, err := pool.MarkFreed(b.Name, b.Generation); err != nil {
		return r, err
	}
	r.Serves, err = s.serve(r.Pool)
	return r, err
}

// serve looks at those who wait for a pool, in turn, until nothing is found for
// any of them.
func (s *Simulator) serve(name string) ([]Result, error) {
	var served []Result
	queue, err := s.pools[name].Queue()
	if err != nil {
		return nil, err
	}
	nothing := map[string]bool{} // tenants for whom there is nothing
	for _, w := range queue {
		if nothing[w.Tenant] {
			continue
		}
		r, err := s.again(name, w)
		if err != nil {
			return served, err
		}
		if r.Status != events.StatusAssigned {
			nothing[w.Tenant] = true
			continue
		}
		delete(s.asked, w.Runtime)
		served = append(served, r)
	}
	return served, nil
}

// again decides a request that waits; of one that waited before the simulation
// only Redis' record is known.
func (s *Simulator) again(name string, w account.Waiter) (Result, error) {
	if p, known := s.asked[w.Runtime]; known {
		return s.provision(w.Request, p, true)
	}
	at := engine.ParsePool(name)
	terms := s.decisions.Terms(w.Tenant, at.Provider())
	d, err := s.assign(at, w.Runtime, w.Request, w.Tenant, terms, true)
	r := Result{RequestID: w.Request, Type: events.TypeProvision, RuntimeID: w.Runtime, Tenant: w.Tenant, Pool: name, Served: true}
	return s.told(r, d, terms), err
}

// Names are the pools' names, in order.
func (s *Simulator) Names() []string { return slices.Sorted(maps.Keys(s.pools)) }
