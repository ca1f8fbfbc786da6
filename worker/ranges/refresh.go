package ranges

import (
	"context"
	"errors"
	"iter"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// Keeper sets the parents, and reads and repairs the network ranges in Redis: package blocks. Every method may return
// account.ErrNotBuilt. All of them are idempotent.
type Keeper interface {
	// SetParents replaces the parents. The next Acquire uses them.
	SetParents(ctx context.Context, parents []network.Parent) error
	// State reads the whole state of the ranges.
	State(ctx context.Context) (network.State, error)
	// Restore puts a record back, even if its blocks overlap others, and reports whether it did.
	// It does nothing if the cluster has the rule.
	Restore(ctx context.Context, r network.Record) (bool, error)
	// Block excludes blocks of another allocator from being allotted; Unblock ends that.
	Block(ctx context.Context, foreign ...netip.Prefix) error
	Unblock(ctx context.Context, foreign ...netip.Prefix) error
}

// Gathered is the state of the network blocks as ledger and ClusterConfigs have it.
type Gathered struct {
	read    *Answers
	notes   *network.Notes               // nil if there are no ClusterConfigs, or they could not be read
	noted   map[string][]network.Applied // by runtime, of those that only ClusterConfigs name
	Foreign []netip.Prefix               // blocks of other allocators, sorted
}

// Gather combines ledger and notes. The caller must have read the notes before the ledger. So if the runtime of a note
// is neither assigned nor gone by the ledger, the ledger was lost or purged since, and the blocks of the note may be in
// use: Records has them too. notes is nil if there are none. The error is that of a reply whose blocks cannot be
// parsed.
func Gather(read *Answers, notes *network.Notes) (*Gathered, error) {
	g := &Gathered{read: read, notes: notes, noted: map[string][]network.Applied{}}
	answered := map[network.Identity][]netip.Prefix{} // by Cluster
	for runtime, answers := range read.eachLive() {
		if _, err := recordsOf(runtime, answers); err != nil {
			return nil, err
		}
		if n, ok := noteOf(runtime, answers); ok && notes != nil {
			answered[n.Cluster] = append(answered[n.Cluster], blocksOf(n.Applied)...)
		}
	}
	if notes == nil {
		return g, nil
	}
	for _, n := range slices.Concat(notes.Configs, notes.Clusters) {
		_, assigned := read.live(n.Runtime)
		switch {
		case n.Runtime == "": // another allocator's, or an edit has removed the runtime: then an answer has these blocks
			g.Foreign = append(g.Foreign, without(blocksOf(n.Applied), answered[n.Cluster])...)
		case read.gone(n.Runtime):
		case assigned:
			g.Foreign = append(g.Foreign, g.added(n)...)
		default:
			for _, applied := range n.Applied {
				g.Foreign = append(g.Foreign, note(g.noted, n.Runtime, applied)...)
			}
		}
	}
	slices.SortFunc(g.Foreign, netip.Prefix.Compare)
	g.Foreign = slices.Compact(g.Foreign)
	return g, nil
}

// Records returns the records of live runtimes, and of those that only ClusterConfigs name.
func (g *Gathered) Records() iter.Seq[network.Record] {
	return func(yield func(network.Record) bool) {
		for runtime, answers := range g.read.eachLive() {
			records, _ := recordsOf(runtime, answers) // Gather has seen that they are readable
			for _, r := range records {
				if !yield(r) {
					return
				}
			}
		}
		for runtime, all := range g.noted {
			for _, applied := range all {
				if !yield(network.Record{Cluster: runtime, Applied: applied}) {
					return
				}
			}
		}
	}
}

// has reports whether Records has a record of the runtime with the rule, or with any rule if that is "".
func (g *Gathered) has(runtime, rule string) bool {
	return g.read.applies(runtime, rule) || applies(g.noted[runtime], rule)
}

// note adds a rule to noted. Its runtime is one that only ClusterConfigs name, and not the ledger. If noted
// has this rule of the runtime already, it stays as it is, and note returns the blocks that only applied has.
func note(noted map[string][]network.Applied, runtime string, applied network.Applied) (other []netip.Prefix) {
	i := slices.IndexFunc(noted[runtime], func(a network.Applied) bool { return a.Rule == applied.Rule })
	if i < 0 {
		noted[runtime] = append(noted[runtime], applied)
		return nil
	}
	return without(blocksOf([]network.Applied{applied}), blocksOf(noted[runtime][i:i+1]))
}

// added returns the blocks of those rules in a note that no answer of its runtime has: another allocator has
// added them to the same Cluster.
func (g *Gathered) added(n network.Note) []netip.Prefix {
	var others []network.Applied
	for _, applied := range n.Applied {
		if answers, _ := g.read.live(n.Runtime); !answered([]network.Applied{applied}, answers) {
			others = append(others, applied)
		}
	}
	return blocksOf(others)
}

func blocksOf(applied []network.Applied) []netip.Prefix {
	var all []netip.Prefix
	for _, a := range applied {
		for _, b := range a.Blocks {
			all = append(all, b.CIDR)
		}
	}
	return all
}

func without(all, these []netip.Prefix) []netip.Prefix {
	return slices.DeleteFunc(slices.Clone(all), func(p netip.Prefix) bool { return slices.Contains(these, p) })
}

// ReadNotes reads all notes. It returns nil if from is nil: the worker then uses no ClusterConfigs.
func ReadNotes(ctx context.Context, from Notes) (*network.Notes, error) {
	if from == nil {
		return nil, nil
	}
	notes, err := from.All(ctx)
	return &notes, err
}

// refresh repairs the blocks in Redis: it restores missing ones, frees those of runtimes that are gone and of
// refused requests, and excludes those of other allocators from being allotted.
func (x *Reconciler) refresh(ctx context.Context, g *Gathered) error {
	if x.Keeper == nil {
		return nil
	}
	state, err := x.Keeper.State(ctx)
	if err != nil {
		return x.notBuilt(err)
	}
	var info observe.Refresh
	if info.Restored, err = x.restore(ctx, state, g); err != nil {
		return err
	}
	if info.Released, err = x.release(ctx, state, g); err != nil {
		return err
	}
	returned, err := x.returnRefused(ctx, state, g)
	if err != nil {
		return err
	}
	info.Released += returned
	if g.notes != nil {
		block, unblock := without(g.Foreign, state.Foreign), without(state.Foreign, g.Foreign)
		if err := x.Keeper.Block(ctx, block...); err != nil {
			return x.notBuilt(err)
		}
		if err := x.Keeper.Unblock(ctx, unblock...); err != nil {
			return x.notBuilt(err)
		}
		info.Blocked, info.Unblocked = len(block), len(unblock)
	}
	if info.Restored+info.Released+info.Blocked+info.Unblocked > 0 {
		if state, err = x.Keeper.State(ctx); err != nil {
			return x.notBuilt(err)
		}
	}
	if info.Conflicts = state.Conflicts(); len(info.Conflicts) > 0 {
		if state, err = x.Keeper.State(ctx); err != nil {
			return x.notBuilt(err)
		}
		info.Conflicts = state.Lasting(info.Conflicts)
	}
	if info.Released+info.Unblocked > 0 && x.Room != nil {
		x.Room()
	}
	if x.Observer.OnRefresh != nil {
		x.Observer.OnRefresh(ctx, info)
	}
	return nil
}

// restore puts the records back that Redis lacks, unless their runtime is gone. It returns their number.
func (x *Reconciler) restore(ctx context.Context, state network.State, g *Gathered) (int, error) {
	restored := 0
	for r := range g.Records() {
		if state.Has(r.Cluster, r.Rule) {
			continue
		}
		place, rt, err := x.runtime(ctx, r.Cluster)
		if err != nil {
			return restored, err
		}
		if gone(place, rt) {
			continue
		}
		did, err := x.Keeper.Restore(ctx, r)
		if err != nil {
			return restored, x.notBuilt(err)
		}
		left, err := x.leftMeanwhile(ctx, r.Cluster)
		if err != nil {
			return restored, err
		}
		if did && !left {
			restored++
		}
	}
	return restored, nil
}

// leftMeanwhile frees the blocks of a runtime that is gone, and reports whether it is: restore may have put
// blocks back after its departure had freed them.
func (x *Reconciler) leftMeanwhile(ctx context.Context, runtime string) (bool, error) {
	place, rt, err := x.runtime(ctx, runtime)
	if err != nil || !gone(place, rt) {
		return false, err
	}
	_, err = x.Ranges.Release(ctx, runtime)
	return true, x.notBuilt(err)
}

// gone reports whether Redis has a runtime gone. That the ledger had it gone when a pass began is no reason to free
// blocks: if it was forgotten since, it may have come again, and have blocks that no answer names yet (rule 14).
func gone(place account.Place, rt account.Runtime) bool {
	return place.Gone || rt.State == account.RuntimeGone
}

// release frees the blocks in Redis of runtimes that are gone. It also frees blocks that were restored from a
// note (they name no request) if the note has been removed and the runtime is not assigned. It returns the
// number of runtimes.
func (x *Reconciler) release(ctx context.Context, state network.State, g *Gathered) (int, error) {
	over := map[string]bool{} // by runtime: whether the ledger has it gone, or only no note has it
	for _, r := range state.Records {
		if left := g.read.gone(r.Cluster); left || g.notes != nil && len(r.Requests) == 0 && !g.has(r.Cluster, "") {
			over[r.Cluster] = left
		}
	}
	var released atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(extendAtOnce)
	for runtime, left := range over {
		group.Go(func() error {
			place, rt, err := x.runtime(ctx, runtime)
			if err != nil || !gone(place, rt) && (left || rt.State == account.RuntimeAssigned) {
				return err
			}
			released.Add(1)
			_, err = x.Ranges.Release(ctx, runtime)
			return x.notBuilt(err)
		})
	}
	err := group.Wait()
	return int(released.Load()), err
}

// returnRefused frees blocks that no answer names and that a refused request took: a call to Redis may take
// effect after its caller has given up, and after another attempt has refused the request (rule 11). It
// returns the number of these requests.
func (x *Reconciler) returnRefused(ctx context.Context, state network.State, g *Gathered) (int, error) {
	asked, returned := map[[2]string]bool{}, 0
	for _, r := range state.Records {
		if g.has(r.Cluster, r.Rule) || g.read.gone(r.Cluster) {
			continue
		}
		for _, relier := range r.Requests {
			request, _, _ := strings.Cut(relier, "#")
			if asked[[2]string{r.Cluster, request}] {
				continue
			}
			asked[[2]string{r.Cluster, request}] = true
			gone, err := x.returnIfRefused(ctx, r.Cluster, request)
			if err != nil {
				return returned, err
			}
			if gone {
				returned++
			}
		}
	}
	return returned, nil
}

func (x *Reconciler) returnIfRefused(ctx context.Context, runtime, request string) (bool, error) {
	stored, found, err := x.Ledger.Last(ctx, x.Subjects.Reply(runtime, request))
	if errors.Is(err, events.ErrUnknownReply) {
		return false, nil // it may be an assignment by a newer version
	}
	if err != nil || !found || !stored.Reply.Final() || stored.Reply.Status == events.StatusAssigned {
		return false, err
	}
	if x.Refused > 0 && x.Now().Sub(stored.Time) >= x.Refused {
		return false, nil // once it is deleted, an attempt that has these blocks by now may be answered with them
	}
	return true, x.giveBack(ctx, runtime, request)
}
