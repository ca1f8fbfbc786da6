package simulation

import (
	"context"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker/memory"
	"github.com/hap-worker/hap-worker/worker/rebuild"
)

// Mutant is a rule of docs/protocol.md, switched off.
type Mutant struct {
	Name, Rule, Does string
	Seed             uint64 // from which on it is found
}

// Mutants are those that a run has to find.
var Mutants = []Mutant{
	{"version", "2", "a label is written over whatever stands there", 555},
	{"terms", "3", "a tenant with one account gets several", 3},
	{"label", "4", "an account is answered without its label", 2},
	{"answer", "4", "what is assigned is answered at once", 0},
	{"dirtying", "8", "a label is marked dirty without a permission", 93},
	{"observe", "10", "labels of others are not followed", 13},
	{"moved", "10", "nothing says which pool an account was claimed in", 21},
	{"expect", "11", "a reply is stored whatever stands there", 0},
	{"take", "11", "a deprovision does not take its id first", 3},
	{"highest", "13 (d)", "the newest reply counts, not the highest", 162},
	{"token", "13 (e)", "whoever rebuilds last installs", 393},
}

// Unfound are those that no run has found so far: docs/testing-simulation.md says what is known of each.
var Unfound = []Mutant{
	{"unconfirmed", "13 (d)", "a rebuilt claim is taken for confirmed", 0},
	{"epoch", "1", "a directory from before a loss is believed", 0},
	{"confirm", "5", "whatever confirm says is answered", 0},
	{"shoots", "8", "nobody looks for Shoots", 0},
	{"in-use", "9", "an account is released under its runtimes", 0},
	{"freed-generation", "9", "a release frees whichever claim there is", 0},
	{"released-by", "9", "a release forgets what it has done", 0},
	{"take-back", "11", "what a refused request holds stays", 0},
	{"seal", "13 (b)", "no event is sealed before a rebuild", 0},
}

// asked is a request of an assignment as Redis gets it.
func (w *world) asked(r account.Request) account.Request {
	if w.off("epoch") {
		r.Epoch = ""
	}
	if w.off("terms") {
		r.Terms = account.Terms{Several: true, Limit: 1, Strategy: account.RoundRobin}
	}
	return r
}

// assigned is what Redis decides, as a process gets it.
func (w *world) assigned(string, account.Request) func(account.Decision, error) (account.Decision, error) {
	return func(d account.Decision, err error) (account.Decision, error) {
		if w.off("answer") && d.Outcome == account.Assigned { // rule 4: at once
			d.Confirmed = true
		}
		return d, err
	}
}

// snapshot is what a rebuild gathered, as it is installed.
func (w *world) snapshot(s account.Snapshot) account.Snapshot {
	if w.off("unconfirmed") { // rule 13 (d)
		for name, rec := range s.Bindings {
			rec.Confirmed = rec.Count > 0
			s.Bindings[name] = rec
		}
	}
	return s
}

// token is the one that a rebuild installs by.
func (w *world) token(ctx context.Context, c *memory.Counters, place, token string) string {
	if w.off("token") { // rule 13 (e): whoever comes last
		_, _ = c.Discard(ctx, place)
		_, _ = c.BeginRebuild(ctx, place, token, w.processes[0].now(), 0)
	}
	return token
}

// sealed is the ledger as a rebuild reads it.
func (w *world) sealed(l *events.Ledger) rebuild.Ledger {
	if w.off("highest") { // rule 13 (d): the newest reply, not the highest
		return newest{l}
	}
	return l
}

// newest tells a rebuild that each reply is decided after the one before.
type newest struct{ *events.Ledger }

func (n newest) Facts(ctx context.Context, visit func(events.Fact) error) error {
	sequence := int64(0)
	return n.Ledger.Facts(ctx, func(f events.Fact) error {
		sequence++
		if f.Sequence > 0 {
			f.Sequence = sequence
		}
		return visit(f)
	})
}
