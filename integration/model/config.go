package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hap-worker/hap-worker/engine/account"
)

// kind is the kind of an event.
type kind byte

const (
	provision   kind = 'P'
	deprovision kind = 'D'
	release     kind = 'R'
)

// event is a message of a publisher about a runtime or, for a release, about a binding.
type event struct {
	kind kind
	of   uint8
	pool uint8 // of a provision: the pool that the rules name, by index
}

// config is a world to explore. Its events may be published in every order that publishers keep, and its
// budget limits the faults.
type config struct {
	name     string
	says     string // description
	events   []event
	tenants  [maxRuntimes]uint8
	bindings int
	limit    uint8 // of every tenant; 0: one account, without a limit
	internal uint8 // the set of internal bindings
	pools    uint8 // 1, or 2: then binding 1 is in the second
	workers  int
	others   string // the writes of others: see anotherWrites and pausing

	directory  bool  // runtimes are looked up in the directory first
	shoots     bool  // clusters appear and vanish
	early      bool  // a deprovision may come while the cluster is still there
	stepwise   bool  // a rebuild stops after each read and each place, otherwise only after all reads
	genless    bool  // releases name no generation
	shared     bool  // accounts belong to no tenant and have no limit
	replicated bool  // there is a second Redis server
	unfenced   bool  // Redis was built under an epoch that no record names
	begun      uint8 // the set of events that are published at the start

	budget budget
}

func events(text string) []event {
	var out []event
	for word := range strings.FieldsSeq(text) {
		e := event{kind: kind(word[0]), of: word[1] - '0'}
		if len(word) > 2 {
			e.pool = word[2] - 'p'
		}
		out = append(out, e)
	}
	return out
}

// twoOfOne is two runtimes of tenant 1 and one of tenant 2.
var twoOfOne = [maxRuntimes]uint8{1, 1, 2}

var configs = named(
	config{name: "tiny", says: "one runtime comes and goes", events: events("P0 D0"), bindings: 1, limit: 2},
	config{name: "base", says: "two runtimes of a tenant come, one goes", events: events("P0 P1 D0"), bindings: 2, limit: 2},
	config{name: "two", says: "two tenants, an account each", events: events("P0 P2 D0"), bindings: 2, limit: 1},
	config{name: "reuse", says: "an account goes from a tenant to the next", events: events("P0 P2 D0 R0"), bindings: 1, limit: 2, shoots: true},
	config{name: "return", says: "a tenant comes back to the account that it left", events: events("P0 P1 D0 R0"), bindings: 1, limit: 2, shoots: true},
	config{name: "early", says: "a deprovision comes before its cluster is gone", events: events("P0 P1 D0 D1"), bindings: 1, limit: 2, shoots: true, early: true},
	config{name: "again", says: "two releases of the same account", events: events("P0 P1 D0 D1 R0 R0"), bindings: 1, limit: 2},
	config{name: "wait", says: "one account, a second tenant waits for it", events: events("P0 P2 D0 R0"), bindings: 1, limit: 1},
	config{name: "waitgo", says: "one account; who waits for it may give up", events: events("P0 P2 D0 D2 R0"), bindings: 1, limit: 1},
	config{name: "queue", says: "one account, several wait for it", events: events("P0 P1 P2 D0 R0"), bindings: 1, limit: 1},
	config{name: "three", says: "three runtimes, two accounts for one each", events: events("P0 P1 P2 D0"), bindings: 2, limit: 1},
	config{name: "samer", says: "two requests for the same runtime", events: events("P0 P0 P2 D0"), bindings: 1, limit: 1},
	config{name: "loss", says: "Redis is lost and rebuilt in steps", events: events("P0 P2 D0"), bindings: 2, limit: 1, stepwise: true, shoots: true, budget: budget{loss: 1}},
	config{name: "rebuild", says: "Redis is lost under two runtimes of a tenant", events: events("P0 P1 D0"), bindings: 2, limit: 1, budget: budget{loss: 1}},
	config{name: "one", says: "Redis is lost under the only account", events: events("P0 P1 D0"), bindings: 1, limit: 2, begun: 7, budget: budget{loss: 1}},
	config{name: "hand", says: "somebody labels accounts by hand", events: events("P0 P1 D0 R0"), bindings: 2, limit: 2, others: "ck", budget: budget{others: 1}},
	config{name: "handloss", says: "somebody labels accounts by hand, and Redis is lost", events: events("P0 P2 D0 R0"), bindings: 2, limit: 2, others: "ck", budget: budget{others: 1, loss: 1}},
	config{name: "handgo", says: "an account that somebody labelled by hand is used and left", events: events("P2 D2 P0 R0"), bindings: 1, limit: 2, others: "k", budget: budget{others: 1}},
	config{name: "single", says: "a tenant that may have one account only", events: events("P0 P1 D0 D1"), bindings: 2},
	config{name: "singles", says: "two tenants that may have one account only", events: events("P0 P1 P2 D0"), bindings: 2},
	config{name: "place", says: "the rules name another pool for a runtime that is there", events: events("P0p P0q D0"), bindings: 2, limit: 2, pools: 2, directory: true},
	config{name: "placeloss", says: "the rules name another pool, and Redis is lost", events: events("P0p P0q"), bindings: 2, limit: 2, pools: 2, directory: true, stepwise: true, budget: budget{loss: 1}},
	config{name: "goneloss", says: "a runtime goes while Redis is lost with its directory", events: events("P0p D0"), bindings: 2, limit: 2, pools: 2, directory: true, stepwise: true, budget: budget{loss: 1}},
	config{name: "bothloss", says: "both of that at once", events: events("P0p P0q D0"), bindings: 2, limit: 2, pools: 2, directory: true, stepwise: true, budget: budget{loss: 1}},
	config{name: "norule", says: "the rules change, and no longer match a request", events: events("P0 P2 D0"), bindings: 1, limit: 1, budget: budget{rules: 1, audits: 1}},
	config{name: "cordon", says: "an account is cordoned while its tenant asks", events: events("P0 P1"), bindings: 2, limit: 2, others: "o", budget: budget{others: 1}},
	config{name: "masters", says: "another server of Redis is promoted, two runtimes of a tenant come", events: events("P0 P1"), bindings: 1, limit: 1, replicated: true, budget: budget{promote: 1, rebuilds: 2}},
	config{name: "mastersdirty", says: "another server is promoted while an account drains", events: events("P0 D0 P1"), bindings: 1, limit: 2, replicated: true, budget: budget{promote: 1, rebuilds: 1}},
	config{name: "masterswait", says: "another server is promoted while a request waits", events: events("P0 P1 D0"), bindings: 1, limit: 1, replicated: true, budget: budget{promote: 1, rebuilds: 1}},
	config{name: "mastersfree", says: "another server is promoted while an account goes from a tenant to the next", events: events("P0 D0 R0 P2"), bindings: 1, limit: 1, replicated: true, budget: budget{promote: 1, rebuilds: 1}},
	config{name: "mastersback", says: "the masters change, and change back", events: events("P0 P1"), bindings: 1, limit: 1, replicated: true, budget: budget{promote: 2, demote: 2, rebuilds: 2}},
	config{name: "mastersgone", says: "the new master goes while it is rebuilt", events: events("P0"), bindings: 1, limit: 1, replicated: true, budget: budget{promote: 1, demote: 1, crash: 1, rebuilds: 3}},
	config{name: "mastersplace", says: "another server is promoted, with a directory", events: events("P0p D0"), bindings: 1, limit: 1, directory: true, stepwise: true, replicated: true, budget: budget{promote: 1, rebuilds: 1}},
	config{name: "unfenced", says: "a replica is promoted that a server got after Redis was built", events: events("P0 P1"), bindings: 1, limit: 1, replicated: true, unfenced: true, budget: budget{promote: 1, rebuilds: 2}},
	config{name: "shared", says: "accounts of a shared pool, one of which somebody labels", events: events("P0 P2 D0"), bindings: 2, shared: true, others: "k", budget: budget{others: 1}},
	config{name: "pause", says: "somebody pauses the pool, and may end that", events: events("P0 P1 D0"), bindings: 1, limit: 2, others: "pu", budget: budget{others: 2}},
	config{name: "moved", says: "an account is moved to another pool, where its tenant asks, too", events: events("P0p P1q D0 R0"), bindings: 1, limit: 1, pools: 2, directory: true, others: "m", budget: budget{others: 1}},
	config{name: "deleted", says: "an account is deleted, and made anew under its name", events: events("P0 P2 D0"), bindings: 1, limit: 1, others: "dr", budget: budget{others: 2}},
	config{name: "forgets", says: "Redis forgets an assignment, and audits put it back", events: events("P0 P1 D0"), bindings: 1, limit: 1, budget: budget{forgets: 1, audits: 3}},
	config{name: "retain", says: "a runtime that is gone is forgotten, and asked for again in another pool", events: events("P0p D0 P0q"), bindings: 2, limit: 2, pools: 2, directory: true, budget: budget{retains: 1}},
	config{name: "internal", says: "an internal account that carries a tenant's name", events: events("P0 P1 D0"), bindings: 2, limit: 2, internal: 1, others: "K", budget: budget{others: 1}},
)

func named(all ...config) map[string]config {
	out := map[string]config{}
	for _, c := range all {
		c.tenants, c.workers, c.pools = twoOfOne, 2, max(1, c.pools)
		out[c.name] = c
	}
	return out
}

// knobs are the numbers of a configuration that -set may change.
func (c *config) knobs() map[string]*uint8 {
	b := &c.budget
	return map[string]*uint8{
		"crash": &b.crash, "dup": &b.dup, "loss": &b.loss, "lost": &b.lost, "down": &b.down,
		"stale": &b.stale, "others": &b.others, "expire": &b.expire, "rules": &b.rules, "audits": &b.audits, "forgets": &b.forgets, "retains": &b.retains, "promote": &b.promote, "demote": &b.demote, "rebuilds": &b.rebuilds, "limit": &c.limit,
	}
}

func (c *config) switches() map[string]*bool {
	return map[string]*bool{"stepwise": &c.stepwise, "shoots": &c.shoots, "early": &c.early, "genless": &c.genless, "directory": &c.directory}
}

// set parses crash=1,workers=3,stepwise=1,...
func (c *config) set(text string) error {
	for part := range strings.SplitSeq(text, ",") {
		if part == "" {
			continue
		}
		name, value, _ := strings.Cut(part, "=")
		n, err := strconv.ParseUint(value, 10, 4)
		switch knob, flag := c.knobs()[name], c.switches()[name]; {
		case err != nil:
			return fmt.Errorf("%s: a number from 0 to 15 is needed", part)
		case knob != nil:
			*knob = uint8(n)
		case flag != nil:
			*flag = n > 0
		case name == "workers" && n >= 1 && n <= maxWorkers:
			c.workers = int(n)
		default:
			return fmt.Errorf("%s: one of %s, %s or workers (1 to %d) is needed", part,
				strings.Join(slices.Sorted(maps.Keys(c.knobs())), ", "),
				strings.Join(slices.Sorted(maps.Keys(c.switches())), ", "), maxWorkers)
		}
	}
	return nil
}

// edits reports whether other writers may leave idle claims, or cause accounts to be dirty under clusters.
func (c *config) edits() bool { return strings.ContainsAny(c.others, "ckKodm") }

// relocates reports whether a binding can leave its pool. Only then do claims record their pool.
func (c *config) relocates() bool { return strings.ContainsAny(c.others, "dm") }

func (c *config) terms() account.Terms {
	if c.shared {
		return account.Terms{}
	}
	return account.Terms{Several: c.limit > 0, Limit: int(c.limit)}
}

// first is the initial state: Redis is built and empty.
func (c *config) first() state {
	s := state{left: c.budget, tokens: 1, published: c.begun}
	for p := range c.pools {
		s.pools[p] = emptyPool(1)
	}
	for b := range uint8(c.bindings) {
		s.labels[b].pool = b * (c.pools - 1)
		s.before[b] = s.labels[b]
	}
	if c.directory {
		s.bucket.epoch = 1
	}
	if c.replicated {
		s.masters = bit(serverA)
		if !c.unfenced {
			s.version, s.record = 1, [directoryPlace + 1]uint8{s.pools[0].epoch, s.pools[1].epoch, s.bucket.epoch}
		}
	}
	return s
}

func emptyPool(epoch uint8) pool {
	p := pool{site: site{epoch: epoch}}
	return p
}
