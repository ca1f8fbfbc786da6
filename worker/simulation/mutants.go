package simulation

import (
	"context"
	"maps"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker/memory"
	"github.com/hap-worker/hap-worker/worker/rebuild"
)

// Mutant is a rule of docs/protocol.md, switched off.
type Mutant struct {
	Name, Rule, Does string
	Seed             uint64 // from which on it is found
	Kinds            []Kind // of faults that its plans draw from; nil is all of Faults
}

// kinds are those of the faults that its plans draw from.
func (m Mutant) kinds() []Kind {
	if m.Kinds == nil {
		return Faults
	}
	return m.Kinds
}

// Narrow worlds, which show some rules sooner.
var (
	slow     = []Kind{Delay}
	losses   = []Kind{Delay, RedisEmpty}
	refusals = []Kind{NoWaiting, Reconfigured, Delay, AnswerLost, Death}
	masters  = []Kind{TwoMasters, Death, EffectLate, AnswerLost, Delay}
)

// Mutants are those that a run has to find.
var Mutants = []Mutant{
	{"epoch", "1", "a directory from before a loss is believed", 167, losses},
	{"version", "2", "a label is written over whatever stands there", 21, []Kind{Delay, EffectLate, CacheLags, AnswerLost}},
	{"terms", "3", "a tenant with one account gets several", 2, nil},
	{"answer", "4", "what is assigned is answered at once", 0, nil},
	{"label", "4", "an account is answered without its label", 1, nil},
	{"confirm", "5", "whatever confirm says is answered", 935, masters},
	{"dirtying", "8", "a label is marked dirty without a permission", 16, nil},
	{"shoots", "8", "nobody looks for Shoots", 3, nil},
	{"in-use", "9", "an account is released under its runtimes", 11, nil},
	{"freed-generation", "9", "a release frees whichever claim there is", 665, slow},
	{"released-by", "9", "a release forgets what it has done", 20, nil},
	{"moved", "10", "nothing says which pool an account was claimed in", 1, nil},
	{"observe", "10", "labels of others are not followed", 8, nil},
	{"expect", "11", "a reply is stored whatever stands there", 0, nil},
	{"take", "11", "a deprovision does not take its id first", 9, nil},
	{"take-back", "11", "what a refused request holds stays", 4528, refusals},
	{"seal", "13 (b)", "no event is sealed before a rebuild", 285, losses},
	{"highest", "13 (d)", "the newest reply counts, not the highest", 9, nil},
	{"unconfirmed", "13 (d)", "a rebuilt claim is taken for confirmed", 185, losses},
	{"fence", "15", "decisions of epochs that are not in force have effects", 10, masters},
	{"depose", "15", "what is not in force stays where it is", 2, masters},
	{"token", "13 (e)", "whoever rebuilds last installs", 22, nil},
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
			rec.Confirmed = true
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

// alwaysBuilt is the epoch of the buckets that no runtime is in.
var alwaysBuilt = account.FencedEpoch("silent")

// record is that of the epochs in force, as a rebuild reads and writes it.
type record struct{ *events.Ledger }

func (r record) Epochs(ctx context.Context) (events.EpochRecord, error) {
	found, err := r.Ledger.Epochs(ctx)
	epochs := maps.Clone(found.Epochs)
	if epochs == nil {
		epochs = account.Epochs{}
	}
	for n := range account.Buckets {
		if place := account.BucketName(n); silent(place) {
			epochs[place] = alwaysBuilt
		}
	}
	found.Epochs = epochs
	return found, err
}

func (r record) SetEpochs(ctx context.Context, epochs account.Epochs, follows uint64) (uint64, error) {
	maps.DeleteFunc(epochs, func(place, _ string) bool { return silent(place) })
	return r.Ledger.SetEpochs(ctx, epochs, follows)
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
