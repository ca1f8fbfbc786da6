package observe

import (
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/network"
)

// Fence is a check whether the epochs of a decision are in force (rule 15).
type Fence struct {
	Duration time.Duration
	Err      error // account.ErrNotInForce, or why the record could not be read; nil if the epochs are in force
}

// Rebuild is the result of a rebuild of pools and buckets, or of the network ranges.
type Rebuild struct {
	Pools     []string // installed by this rebuild
	Buckets   int      // installed by this rebuild
	Replies   int      // read from the ledger
	Foreign   int      // unreadable messages of ledger and waiting room, and an unreadable record of epochs
	Runtimes  int
	Sealed    int
	Ranges    int // rules applied to clusters, in a rebuild of the network ranges
	Duration  time.Duration
	Err       error
	Elsewhere bool // Err says that another worker is rebuilding
}

// LogValue groups what a log line needs.
func (i Rebuild) LogValue() slog.Value {
	attrs := []slog.Attr{
		slog.Any("pools", i.Pools), slog.Int("buckets", i.Buckets), slog.Int("replies", i.Replies),
		slog.Int("runtimes", i.Runtimes), slog.Int("sealed", i.Sealed), slog.Int("foreign", i.Foreign), slog.Int("ranges", i.Ranges), slog.Duration("duration", i.Duration),
	}
	if i.Err != nil {
		attrs = append(attrs, slog.String("error", i.Err.Error()))
	}
	return slog.GroupValue(attrs...)
}

// Followed is a record in Redis that changed because of a label.
type Followed struct {
	Binding     string
	Pool        string
	Observation account.Observation
}

// LogValue groups what a log line needs.
func (i Followed) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("binding", i.Binding), slog.String("pool", i.Pool), slog.String("change", string(i.Observation.Change)),
		slog.String("was", string(i.Observation.Before.State)), slog.String("tenant", i.Observation.Record.Tenant),
	)
}

// Drift is the result of an audit.
type Drift struct {
	Found     []account.Drift
	Changed   []account.Drift // the found ones that were repaired, or whose claim was doubted or drained
	NotBuilt  []string        // pools and buckets that are not built; if a bucket is among them, nothing was compared
	Duration  time.Duration
	Err       error // the audit failed: what it would have found is unknown
	RepairErr error // repairs failed
}

// Left counts the drifts that the audit did not mend, by kind; a claim that was doubted or drained counts. The map has
// every kind.
func (i Drift) Left() map[account.DriftKind]int {
	left := map[account.DriftKind]int{}
	for _, kind := range account.DriftKinds() {
		left[kind] = 0
	}
	for _, d := range i.Found {
		left[d.Kind]++
	}
	for _, d := range i.Changed {
		if d.Remedy() == account.Mended {
			left[d.Kind]--
		}
	}
	return left
}

// LogValue groups what a log line needs.
func (i Drift) LogValue() slog.Value {
	attrs := []slog.Attr{
		slog.Int("found", len(i.Found)), slog.Int("changed", len(i.Changed)), slog.Duration("duration", i.Duration),
	}
	for _, kind := range account.DriftKinds() {
		if n := i.Left()[kind]; n > 0 {
			attrs = append(attrs, slog.Int(string(kind), n))
		}
	}
	if n := len(i.NotBuilt); n > 0 {
		attrs = append(attrs, slog.Int("notBuilt", n))
	}
	if err := errors.Join(i.Err, i.RepairErr); err != nil {
		attrs = append(attrs, slog.String("error", err.Error()))
	}
	return slog.GroupValue(attrs...)
}

// Extended is a network rule that was applied to a cluster after its answer, or that found no room.
type Extended struct {
	Runtime string
	Request string // id of the extra reply
	Rule    string
	Err     error // why there is no room; nil if the rule was applied
}

// Refresh is a comparison of the network blocks in Redis with ledger and ClusterConfigs.
type Refresh struct {
	Restored  int      // rules of clusters that Redis had lost
	Released  int      // clusters that are gone and refused requests, whose blocks were freed
	Blocked   int      // new blocks of other allocators, which are no longer allotted
	Unblocked int      // blocks that other allocators no longer have
	Conflicts []string // overlapping blocks
}

// LogValue groups what a log line needs.
func (i Refresh) LogValue() slog.Value {
	return slog.GroupValue(slog.Int("restored", i.Restored), slog.Int("released", i.Released), slog.Int("blocked", i.Blocked),
		slog.Int("unblocked", i.Unblocked), slog.Int("conflicts", len(i.Conflicts)))
}

// Unserved are the clusters that a network rule has come to match and that have no block of it, as they were last
// served.
type Unserved struct {
	Clusters map[string]int // by the rule's id; rules without such clusters are left out
}

// Noted is the result of writing or removing a runtime's ClusterConfigs and the annotation of its Cluster.
type Noted struct {
	Runtime string
	Written int             // objects that were written
	Removed int             // objects that were removed
	Taken   []network.Taken // objects of other owners, which stay
	Failed  int             // failed attempts before this one
	Err     error           // retried, except network.ErrRefused
}

// LogValue groups what a log line needs.
func (i Noted) LogValue() slog.Value {
	attrs := []slog.Attr{slog.String("runtime", i.Runtime), slog.Int("written", i.Written), slog.Int("removed", i.Removed)}
	if len(i.Taken) > 0 {
		attrs = append(attrs, slog.Any("taken", i.Taken))
	}
	if i.Err != nil {
		attrs = append(attrs, slog.String("error", i.Err.Error()))
	}
	return slog.GroupValue(attrs...)
}

// KeptBecause is the reason why an old runtime, or an old reply that is deleted separately (rule 14, 7), is kept.
type KeptBecause string

// The reasons.
const (
	KeptInForce  KeptBecause = "in-force"  // another reply than the release is in force
	KeptYounger  KeptBecause = "younger"   // it has a younger reply
	KeptForeign  KeptBecause = "foreign"   // a message among its replies cannot be read
	KeptBacklog  KeptBecause = "backlog"   // an event as old as its replies is not settled; or, for its records, one as old as the pass
	KeptWaiting  KeptBecause = "waiting"   // a request of it waits, or a waiting reply of it is stored
	KeptShoot    KeptBecause = "shoot"     // its Shoot is still there
	KeptDraining KeptBecause = "draining"  // the account that it left is not marked dirty yet
	KeptBlocks   KeptBecause = "blocks"    // it has network blocks, or a ClusterConfig
	KeptDiffers  KeptBecause = "differing" // Redis does not have the runtime as gone; or, for a rejection, has it assigned or waiting
	KeptNotBuilt KeptBecause = "not-built" // Redis has to be rebuilt first
)

// Retention is the result of a retention pass.
type Retention struct {
	Purged    int // runtimes whose replies were deleted
	Forgotten int // tombstones deleted from Redis: records and entries of the directory
	Removed   int // replies that were deleted separately, whatever becomes of their runtime (rule 14, 7)
	Kept      map[KeptBecause]int
	Duration  time.Duration
	Err       error
}

// LogValue groups what a log line needs.
func (i Retention) LogValue() slog.Value {
	attrs := []slog.Attr{
		slog.Int("purged", i.Purged), slog.Int("forgotten", i.Forgotten), slog.Int("removed", i.Removed), slog.Duration("duration", i.Duration),
	}
	for _, because := range slices.Sorted(maps.Keys(i.Kept)) {
		attrs = append(attrs, slog.Int("kept-"+string(because), i.Kept[because]))
	}
	if i.Err != nil {
		attrs = append(attrs, slog.String("error", i.Err.Error()))
	}
	return slog.GroupValue(attrs...)
}
