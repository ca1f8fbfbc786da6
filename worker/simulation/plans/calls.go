package plans

import (
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker/simulation/gate"
)

// Effect says what a call does to its server.
type Effect int

// The effects.
const (
	Look   Effect = iota + 1 // changes nothing
	Change                   // may change something
	Seldom                   // may change something, and comes at most a few times in a history
)

// Calls are the calls that a fault can strike, and their effects. Calls that practically no history has are left out, such
// as an audit's repairs: no fault strikes them, and they count as ones that change something.
var Calls = map[string]Effect{
	// Redis: pools and directory
	"place": Look, "status": Look, "in use": Look, "queue": Look, "heads": Look, "time": Look, "pools": Look, "bindings": Look, "runtimes": Look,
	"places": Look, "runtime": Look, "binding": Look, "built": Look,
	"locate": Change, "assign": Change, "locate and assign": Change, "confirm": Change, "depart": Change, "observe": Change, "release runtime": Change,
	"take back": Change, "begin rebuild": Change, "renew rebuild": Change, "install": Change,
	"leave": Seldom, "move place": Seldom, "forget": Seldom, "begin forgetting": Seldom, "forget place": Seldom, "discard": Seldom, "mark freed": Seldom,
	"begin dirtying": Seldom, "revoke": Seldom, "refuse": Seldom, "doubt": Seldom,
	// Redis: network ranges
	"blocks of": Look, "all blocks": Look, "ranges built": Look,
	"acquire blocks": Change, "return blocks": Change, "release blocks": Change, "set parents": Change,
	"begin rebuild of ranges": Seldom, "install ranges": Seldom,
	// Gardener
	"get": Look, "shoots on": Look, "list bindings": Look, "list Shoots": Look,
	"label": Change,
	"free":  Seldom, "mark dirty": Seldom, "unclaim": Seldom,
	// NATS
	"ask for an event": Look, "take": Look, "look at the consumer": Look, "reopen the consumer": Look, "state of": Look, "subjects of": Look,
	"read " + events.StreamEvents: Look, "read " + events.StreamReplies: Look, "read " + events.StreamWaiting: Look, "walk " + events.StreamReplies: Look,
	"publish": Change, "acknowledge": Change, "hand back": Change, "end": Change, "purge " + events.StreamWaiting: Change,
	"purge " + events.StreamReplies: Seldom,
}

// Meets reports whether a fault of a call may strike this call. A fault strikes only calls of the port that its item
// draws; a quarter of the faults only calls that change something, a quarter only seldom ones.
func (i Item) Meets(c *gate.Call) bool {
	effect := Calls[c.Op]
	if effect == 0 || gate.Ports[i.N%len(gate.Ports)] != c.Port {
		return false
	}
	switch i.M >> 10 % 4 {
	case 0:
		return effect == Seldom
	case 1:
		return c.Write
	default:
		return true
	}
}
