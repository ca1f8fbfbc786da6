package main

// The limits of every world. No configuration exceeds them.
const (
	maxBindings = 2
	maxRuntimes = 3
	maxEvents   = 6
	maxWorkers  = 3
)

// label is the state of a binding in Kubernetes. tenant counts from 1, 0 is unclaimed; releasedBy is an
// event's index plus 1.
type label struct {
	tenant, generation, epoch, releasedBy uint8
	dirty, cordoned, deleted              bool

	pool      uint8 // the pool that the labels name, by index
	in, whose uint8 // the pool of the claim plus 1, and the tenant of the claim
}

func (l label) unclaimed() bool { return l.tenant == 0 && !l.dirty && !l.deleted }

// at is the pool that counts the binding's runtimes: the pool of its claim, or without one the pool that its
// labels name.
func (l label) at() uint8 {
	if l.in > 0 && l.tenant != 0 && l.whose == l.tenant {
		return l.in - 1
	}
	return l.pool
}

// isIn reports whether the binding exists, and belongs to the pool.
func (l label) isIn(pool uint8) bool { return !l.deleted && l.at() == pool }

// record and runtime are compact, comparable forms of account.Record and account.Runtime. A binding in a
// runtime is its index plus 1.
type record struct {
	state, tenant, generation, count uint8
	confirmed, pristine              bool
}

type runtime struct {
	state, binding, sequence, requests, tenant uint8 // requests is a set: a bit for each event
	confirmed, adopted                         bool
}

// site has the common fields of pool and bucket.
type site struct{ epoch, token, sequence uint8 }

func (s site) built() bool { return s.epoch != 0 }

// pool is an account.Pool between two scripts; thaw converts it back.
type pool struct {
	site
	paused   bool
	bindings [maxBindings]record
	runtimes [maxRuntimes]runtime
}

// place is an entry of the directory: a pool's index plus 1, or gone.
type place struct{ pool, sequence uint8 }

const gone = 255

// bucket is an account.Bucket between two scripts. All runtimes are in one.
type bucket struct {
	site
	places [maxRuntimes]place
}

// status is the status of the last message on a reply's subject.
type status uint8

const (
	unanswered status = iota
	sealed
	waiting
	assigned // this and the following are final
	released
	superseded
	exhausted
	returned
	notDirty
	inUse
	stale
	rejected // no rule matches
	unknown  // there is no such binding
)

var statusNames = [...]string{
	"no reply", "sealed", "waiting", "assigned", "released", "Superseded",
	"PoolExhausted", "returned", "NotDirty", "BindingInUse", "StaleRelease", "NoMatchingRule", "UnknownBinding",
}

func (s status) final() bool    { return s >= assigned }
func (s status) String() string { return statusNames[s] }

// reply is the last message of an event's reply subject. Pool and binding are
// indexes plus 1, 0 for none.
type reply struct {
	status                  status
	pool, binding, sequence uint8
}

// The keys of work that belongs to no event.
const (
	sweepKey   = 0x40 // plus the binding
	auditKey   = 0x50 // plus the runtime, or plus maxRuntimes and the binding's index plus 1
	rebuildKey = 0x60 // plus the server
	retainKey  = 0x70 // plus the runtime
)

// worker is one handler between two steps.
type worker struct {
	at  at
	key uint8 // of the event, or one of the keys above

	binding     uint8 // the binding of the current step
	view        label // of the binding, as it was read
	fresh, live bool  // fresh: the view's resourceVersion is the latest; live: the view was not read from the cache

	pool                               uint8 // index
	tenant, generation, sequence, made uint8 // of the decision; made is its epoch
	outcome                            status
	on                                 uint8 // the binding in the reply, plus 1
	barred                             uint8 // the bindings that must not gain runtimes, by the cache; of retention: the runtime's events

	placeless bool // the reply names no pool: the runtime was gone before it had one
	current   bool // the sequence of the reply's subject that it read is the latest
	served    bool // it serves the event from the waiting room
	asked     bool // it has asked for an account in pool
	waited    bool // the event may be in the waiting room

	since uint8 // the sequence under which the event waits, by its reply

	places uint8  // of a rebuild: the places that are not installed yet
	next   uint8  // of a rebuild: the next event to seal; of retention: the event of the release
	read   uint16 // of a rebuild or retention: the number of its input, see gatherings; of a repair: the number of the drift

	version uint8 // of a rebuild: the version of the record that it read
	looked  uint8 // without rule lookLast: the epoch that the record named when the event was taken
}

// write is a message to the record that was sent twice; the second is in flight.
type write struct{ token, places, version uint8 }

// budget is the number of faults of each kind that may still happen.
type budget struct {
	crash, dup, loss, lost, down, stale, others, expire, rules uint8
	audits, forgets, retains                                   uint8
	promote, demote, rebuilds                                  uint8
}

// state is a world between two steps. Equal states compare equal.
type state struct {
	labels  [maxBindings]label
	before  [maxBindings]label // each label's previous value, if caches may be stale
	pools   [2]pool
	bucket  bucket
	replies [maxEvents]reply
	shoots  [maxRuntimes]uint8 // binding plus 1, or gone
	freed   [maxEvents]uint8   // the generation that a release event names

	published, delivered, acked, room, expired, unmatched, forgotten uint8 // sets of events

	workers [maxWorkers]worker
	left    budget
	tokens  uint8 // used so far

	// With two Redis servers, pools and bucket are A's, and other is the number of B's content.
	other   uint16
	masters uint8                     // the servers that consider themselves master
	record  [directoryPlace + 1]uint8 // epochs in force, by place
	version uint8                     // of the record
	shown   uint16                    // older epochs that a deposed leader of NATS may still show
	late    write
}

func bit(e uint8) uint8 { return 1 << e }

func has(set, e uint8) bool { return set&bit(e) != 0 }

// write replaces the label of a binding, which makes every view of it stale.
func (s *state) write(b uint8, l label, keep bool) {
	if keep {
		s.before[b] = s.labels[b]
	}
	s.labels[b] = l
	for i := range s.workers {
		if s.workers[i].binding == b {
			s.workers[i].fresh = false
		}
	}
}

// answer stores a message on an event's reply subject. A worker that read an earlier sequence can no longer
// publish.
func (s *state) answer(e uint8, r reply) {
	s.replies[e] = r
	for i := range s.workers {
		if s.workers[i].at != idle && s.workers[i].key == e {
			s.workers[i].current = false
		}
	}
}

// look reads the label of a binding into a worker's view.
func (s *state) look(w int, b uint8, live bool) {
	k := &s.workers[w]
	k.binding, k.view, k.fresh, k.live = b, s.labels[b], true, live
}

func (s *state) refers(b uint8) bool {
	for _, on := range s.shoots {
		if on == b+1 {
			return true
		}
	}
	return false
}

// held reports whether another worker than w works on the key.
func (s *state) held(w int, key uint8) bool {
	for i := range s.workers {
		if i != w && s.workers[i].at != idle && s.workers[i].key == key {
			return true
		}
	}
	return false
}

// order sorts the workers, which are interchangeable, and returns the old index of each.
func (s *state) order(n int) (from [maxWorkers]int) {
	for i := range from {
		from[i] = i
	}
	for i := 1; i < n; i++ {
		for j := i; j > 0 && s.workers[j].before(&s.workers[j-1]); j-- {
			s.workers[j], s.workers[j-1] = s.workers[j-1], s.workers[j]
			from[j], from[j-1] = from[j-1], from[j]
		}
	}
	return from
}

func (k *worker) before(o *worker) bool {
	a, b := k.bytes(), o.bytes()
	for i := range a {
		if a[i] != b[i] {
			return a[i] < b[i]
		}
	}
	return false
}

func (k *worker) bytes() [27]uint8 {
	flags, asked := uint8(0), uint8(0)
	if k.asked {
		asked = 1
	}
	for i, f := range [...]bool{k.view.dirty, k.view.cordoned, k.fresh, k.live, k.current, k.served, k.waited, k.placeless} {
		if f {
			flags |= 1 << i
		}
	}
	if k.view.deleted {
		asked |= 2
	}
	return [27]uint8{
		uint8(k.at), k.key, k.binding, k.view.tenant, k.view.generation, k.view.epoch, k.view.releasedBy, flags,
		k.pool, k.tenant, k.generation, k.sequence, k.made, uint8(k.outcome), k.barred, uint8(k.read >> 8), uint8(k.read), k.on, k.places, k.next, asked, k.version, k.looked, k.view.pool, k.view.in, k.view.whose, k.since,
	}
}
