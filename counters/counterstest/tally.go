package counterstest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Tally counts the operations and outcomes of random histories.
type Tally struct {
	lengths    []int // number of operations of each history
	operations map[string]int
	outcomes   map[string]int
}

// NewTally returns a Tally of which all counts are 0.
func NewTally() *Tally {
	t := &Tally{operations: map[string]int{}, outcomes: map[string]int{}}
	for _, op := range operations {
		t.operations[op.name] = 0
	}
	for _, outcome := range outcomes {
		t.outcomes[outcome] = 0
	}
	return t
}

// outcomes lists the outcomes that a Tally counts. If a long run never reaches one of them,
// the run has not tested it.
var outcomes = []string{
	claimed, own, revived, labelled, shared, repeated, foreign, superseded, refused, waiting, tooShort, servedInTurn,
	paused, elsewhereFound, atLimit, confirmed, notConfirmed, revoked, kept, drained, unknownLeft, waitingLeft, leftAgain, keptFrom, hasLeft, stayed, movedOn,
	dirtied, notDirtied, backPristine, released, notReleased, adopted, freedByLabel, dirtiedByLabel, mended,
	rebuiltAfterLoss, rebuiltAfterRestart, rebuiltByOperator, takenOver, leftAlone, tooLate, notNeeded, notBuilt, rebuiltSince, sentTwice,
}

// The outcomes that a Tally counts.
const (
	claimed      = "an account was claimed"
	own          = "the tenant's own account"
	revived      = "a draining account was revived"
	labelled     = "a label that Redis did not know"
	shared       = "an account of a shared pool"
	repeated     = "the assignment was repeated"
	foreign      = "another tenant's runtime"
	superseded   = "superseded: the runtime was gone"
	refused      = "refused at the deadline"
	waiting      = "waiting"
	tooShort     = "more suggestions were needed"
	servedInTurn = "served out of the waiting"
	paused       = "asked while paused"

	elsewhereFound = "the runtime belongs to another pool, or is gone"
	atLimit        = "an account was passed over at its limit"

	confirmed    = "a claim was confirmed"
	notConfirmed = "a claim was over before it was confirmed"
	revoked      = "a conflict: the claim was revoked"
	kept         = "a conflict of a claim that was over or confirmed"

	drained     = "the last runtime left: draining"
	unknownLeft = "an unknown runtime left"
	waitingLeft = "a runtime left that waited"
	leftAgain   = "a runtime left again"
	keptFrom    = "a runtime was kept from another tenant"

	hasLeft = "a runtime went to another pool"
	stayed  = "a runtime stayed though its rule names another pool"
	movedOn = "asked for a runtime that has gone to another pool"

	dirtied        = "dirty"
	notDirtied     = "not to be dirtied: revived, in use or over"
	backPristine   = "returned as it came: pristine"
	released       = "released"
	notReleased    = "not to be released"
	adopted        = "a label was adopted"
	freedByLabel   = "freed by its label"
	dirtiedByLabel = "dirty by its label"
	mended         = "a repair changed something"

	rebuiltAfterLoss    = "rebuilt with loss"
	rebuiltAfterRestart = "rebuilt after a restart"
	rebuiltByOperator   = "rebuilt for an operator"
	takenOver           = "a rebuild was taken over"
	leftAlone           = "another rebuilds already"
	tooLate             = "a rebuild came too late to install"
	notNeeded           = "a rebuild of what is built"
	notBuilt            = "asked while not built"
	rebuiltSince        = "asked with an older epoch"
	sentTwice           = "the reply was lost, the script sent again"
)

func (t *Tally) ended(length int) { t.lengths = append(t.lengths, length) }

func (t *Tally) came(outcome string) { t.outcomes[outcome]++ }

func (t *Tally) cameIf(yes bool, outcome, otherwise string) {
	if yes {
		t.came(outcome)
		return
	}
	t.came(otherwise)
}

// Add adds the counts of another Tally.
func (t *Tally) Add(other *Tally) {
	t.lengths = append(t.lengths, other.lengths...)
	for name, n := range other.operations {
		t.operations[name] += n
	}
	for name, n := range other.outcomes {
		t.outcomes[name] += n
	}
}

// Histories returns the number of histories.
func (t *Tally) Histories() int { return len(t.lengths) }

// Median returns the median number of operations of a history.
func (t *Tally) Median() int {
	if len(t.lengths) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(t.lengths))[len(t.lengths)/2]
}

// Missing returns the operations and outcomes whose count is 0.
func (t *Tally) Missing() []string {
	var missing []string
	for _, counts := range []map[string]int{t.operations, t.outcomes} {
		for _, name := range slices.Sorted(maps.Keys(counts)) {
			if counts[name] == 0 {
				missing = append(missing, name)
			}
		}
	}
	return missing
}

// String returns all counts as a table.
func (t *Tally) String() string {
	total := 0
	for _, n := range t.lengths {
		total += n
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d histories of %d operations in the median, %.1f in the mean, %d in all\n",
		t.Histories(), t.Median(), float64(total)/float64(max(1, t.Histories())), total)
	for _, op := range operations {
		fmt.Fprintf(&b, "  %8d  %s\n", t.operations[op.name], op.name)
	}
	b.WriteString("what they came to\n")
	for _, outcome := range outcomes {
		fmt.Fprintf(&b, "  %8d  %s\n", t.outcomes[outcome], outcome)
	}
	return b.String()
}
