package account

import "github.com/hap-worker/hap-worker/engine"

// The states of an account in addition to the states of a record. They come from its binding in Gardener, from
// runtimes that no label accounts for (Held), or mean that Gardener does not show the account (Missing), or Redis
// shows no state that this version knows (Unknown).
const (
	Dirty     State = "dirty"
	Internal  State = "internal"
	Cordoned  State = "cordoned"
	Deleting  State = "deleting"
	Duplicate State = "duplicate"
	Common    State = "shared"
	Held      State = "held"
	Missing   State = "missing"
	Unknown   State = "unknown"
)

// States lists the states that Standing returns, in the order in which the page shows them.
func States() []State {
	return []State{Claiming, InUse, Common, Draining, Dirtying, Dirty, Internal, Cordoned, Deleting, Duplicate, Held, Missing, Unknown, Free}
}

// Standing returns the state of an account: one word, the same in metrics, on the page and in hapctl. b is
// the binding in Gardener, nil if Gardener has none of this name in the pool. rec is the pool's record in
// Redis, nil if it could not be read; the zero Record means that there is none.
// The first state that applies, with the rules of docs/protocol.md that make it so:
//
//	unknown   the record could not be read
//	missing   Gardener has no such binding in the pool (10)
//	dirty     the label decides, over every record: no new runtime (I5)
//	deleting  of a shared pool: it was deleted, no new runtime (3)
//	internal  of a shared pool: the label decides, no new runtime (I5)
//	cordoned  of a shared pool: the label decides, no new runtime (3)
//	duplicate of a shared pool: another binding has its Secret, no new runtime (3)
//	shared    the label decides: used by all tenants; the record only counts
//	claiming  the record decides over the tenant's label, and over internal,
//	          cordoned, deleting and duplicate: taken, the label is not confirmed (3, 5)
//	claimed   the record decides likewise: a tenant's, with runtimes or idle
//	draining  the record decides likewise: empty, the tenant may come back (7)
//	dirtying  the record decides likewise: on its way to the label dirty (8)
//	unknown   the record has a state that this version does not know
//	held      the record decides over the tenant's label: runtimes are on it that no
//	          label accounts for; it is given to no tenant (13)
//	claimed   there is no record, and the label names a tenant: Redis adopts it (10)
//	deleting  there is no record: it was deleted, and is not claimed (3)
//	internal  there is no record: the label keeps it from being claimed (I5)
//	cordoned  there is no record: the label keeps it from being claimed (3)
//	duplicate there is no record: another binding has its Secret (3)
//	free      neither side speaks against a claim (3)
func Standing(b *engine.Binding, rec *Record) State {
	switch {
	case rec == nil:
		return Unknown
	case b == nil:
		return Missing
	case b.Dirty:
		return Dirty
	case b.Pool().Shared:
		return barredOr(b, Common)
	}
	switch rec.State {
	case Claiming, InUse, Draining, Dirtying:
		return rec.State
	case Free, "":
	default:
		return Unknown
	}
	switch {
	case rec.Count > 0:
		return Held
	case b.Tenant != "":
		return InUse
	default:
		return barredOr(b, Free)
	}
}

// barredOr returns the state that keeps the account from new runtimes. If there is none, it returns the state
// otherwise.
func barredOr(b *engine.Binding, otherwise State) State {
	switch {
	case b.Deleting:
		return Deleting
	case b.Internal:
		return Internal
	case b.Cordoned:
		return Cordoned
	case b.SameSecretAs != "":
		return Duplicate
	default:
		return otherwise
	}
}
