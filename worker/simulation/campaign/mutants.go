package campaign

import "github.com/hap-worker/hap-worker/worker/simulation/plans"

// Mutant is a rule of docs/protocol.md that is switched off.
type Mutant struct {
	Name, Rule, Does string
	Seed             uint64       // the seed at which the search begins
	Kinds            []plans.Kind // of faults that its plans draw from; nil is plans.FirstFaults
}

// Draws returns the kinds of faults that its plans draw from.
func (m Mutant) Draws() []plans.Kind {
	if m.Kinds == nil {
		return plans.FirstFaults
	}
	return m.Kinds
}

// Narrow worlds, which show some rules sooner.
var (
	slow       = []plans.Kind{plans.Delay}
	losses     = []plans.Kind{plans.Delay, plans.RedisEmpty}
	late       = []plans.Kind{plans.Delay, plans.EffectLate, plans.RedisEmpty, plans.Death}
	refusals   = []plans.Kind{plans.NoWaiting, plans.Reconfigured, plans.Delay, plans.AnswerLost, plans.Death}
	masters    = []plans.Kind{plans.TwoMasters, plans.Death, plans.EffectLate, plans.AnswerLost, plans.Delay}
	rules      = []plans.Kind{plans.Reconfigured, plans.Delay}
	keys       = []plans.Kind{plans.KeyLost, plans.Delay}
	full       = []plans.Kind{plans.RedisFull, plans.Delay}
	cuts       = []plans.Kind{plans.RebuildCut, plans.KeyLost}
	idle       = []plans.Kind{plans.TwoMasters, plans.NoWaiting, plans.Quiet}
	confirming = []plans.Kind{plans.LabelDirty, plans.LabelCleaned, plans.Delay}
)

// Mutants are the mutants that TestMutants has to detect.
var Mutants = []Mutant{
	{"epoch", "1", "a directory from before a loss is believed", 108, losses},
	{"key", "1", "what a Redis has lost is taken for what never was", 2, keys},
	{"half", "1", "a script that fails has written half", 4, full},
	{"version", "2", "a label is written over whatever stands there", 18, []plans.Kind{plans.Delay, plans.EffectLate, plans.CacheLags, plans.AnswerLost}},
	{"terms", "3", "a tenant with one account gets several", 2, nil},
	{"limit", "3", "an account gains clusters beyond its limit", 1, nil},
	{"deleting", "3", "an account that is being deleted is claimed", 8, nil},
	{"answer", "4", "what is assigned is answered at once", 0, nil},
	{"label", "4", "an account is answered without its label", 1, nil},
	{"confirm", "5", "whatever confirm says is answered", 2624, confirming},
	{"owner", "7", "a runtime is deprovisioned for any tenant", 52, nil},
	{"dirtying", "8", "a label is marked dirty without a permission", 22, nil},
	{"shoots", "8", "no Shoot is looked for", 83, nil},
	{"in-use", "9", "an account is released under its runtimes", 11, nil},
	{"freed-generation", "9", "a release frees whichever claim there is", 842, slow},
	{"released-by", "9", "a release forgets what it has done", 70, nil},
	{"unnumbered", "9", "a release need not say which claim was cleaned", 251, nil},
	{"moved", "10", "nothing says which pool an account was claimed in", 16, nil},
	{"observe", "10", "labels of others are not followed", 8, nil},
	{"expect", "11", "a reply is stored whatever stands there", 0, nil},
	{"take", "11", "a deprovision does not take its id first", 9, nil},
	{"take-back", "11", "what a refused request holds stays", 710, refusals},
	{"lease", "13 (a)", "a rebuild that died is waited for", 2, cuts},
	{"seal", "13 (b)", "no event is sealed before a rebuild", 0, losses},
	{"highest", "13 (d)", "the newest reply counts, not the highest", 20, nil},
	{"unconfirmed", "13 (d)", "a rebuilt claim is taken for confirmed", 1018, losses},
	{"fence", "15", "decisions of epochs that are not in force have effects", 10, masters},
	{"depose", "15", "what is not in force stays where it is", 5, masters},
	{"token", "13 (e)", "a rebuild installs without its token", 2218, late},
	{"looks", "15", "no sweep has the epochs compared with the record", 17, idle},
	{"follow", "16", "a rule that is mended does not reach who waits", 98, rules},
	{"after", "16", "a pool does not go on from the number that a runtime brings", 347, nil},
}
