package faults

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/integration/checker"
)

// settle reads everything repeatedly until nothing is wrong, but at most for o.Settle. found lists what was wrong in
// the last successful read; err is the error of the last read.
func (l *Load) settle() (facts checker.Facts, found []string, err error) {
	for begin := time.Now(); ; {
		facts, err = l.facts()
		if err == nil {
			found = l.wrong(facts)
		}
		if (err == nil && len(found) == 0) || time.Since(begin) > l.o.Settle || !pause(l.ctx, time.Second) {
			return facts, found, err
		}
	}
}

func (l *Load) facts() (checker.Facts, error) {
	facts, err := checker.Read(l.ctx, l.sources)
	if err != nil {
		return facts, err
	}
	facts.Watched = l.watched()
	facts.Published, facts.Unreadable = l.copied()
	facts.Dead, err = l.dead()
	return facts, err
}

// wrong lists what must not be so once everything is settled.
func (l *Load) wrong(facts checker.Facts) []string {
	var found []string
	for _, stream := range []string{events.StreamEvents, events.StreamWaiting} {
		if left, err := l.left(stream); err != nil || left > 0 {
			found = append(found, fmt.Sprintf("I8 NothingLost: %d messages are left in %s, error %v", left, stream, err))
		}
	}
	if n := underway(facts); n > 0 {
		found = append(found, fmt.Sprintf("drift: %d bindings are still draining or dirty", n))
	}
	found = append(found, facts.Violations(checker.Terms{OneAccount: true, Several: several()})...)
	return append(found, facts.Drift()...)
}

// empty releases all runtimes, and checks that every account is free, except claims whose answer no publisher
// got.
func (l *Load) empty() ([]string, error) {
	for {
		rt := l.some(func(rt *runtime) bool { return rt.state != leaving })
		if rt == nil {
			break
		}
		l.end(rt)
	}
	l.busy.Wait()
	facts, found, err := l.settle()
	if err != nil {
		return nil, err
	}
	idle := facts.Idle()
	l.add("idle claims in the end that no publisher knows", len(idle))
	for name, b := range facts.Bindings {
		held := b.Tenant != "" && !slices.Contains(idle, name)
		if held || b.Dirty || facts.Record(b).Count > 0 {
			found = append(found, fmt.Sprintf("in the end %s is not free: %+v, record %+v", name, b, facts.Record(b)))
		}
	}
	if len(found) > 0 {
		l.dump(facts, "facts-in-the-end.txt")
	}
	return found, nil
}

// dump writes the facts to a file beside the logs, to debug a violation.
func (l *Load) dump(facts checker.Facts, name string) {
	var b strings.Builder
	for _, s := range facts.Watched.Stored {
		rep := s.Reply
		fmt.Fprintf(&b, "%s stored %d %s %s", s.Time.UTC().Format("15:04:05.000"), s.Sequence, s.Subject, rep.Status)
		if rep.Decision != nil {
			fmt.Fprintf(&b, " decision %d of %s", rep.Decision.Sequence, rep.Decision.Pool)
		}
		if rep.Binding != nil {
			fmt.Fprintf(&b, " binding %s generation %d claimed %t", rep.Binding.Name, rep.Binding.Generation, rep.Binding.Claimed)
		}
		if rep.Clusters != nil {
			fmt.Fprintf(&b, " clusters %d of %d", *rep.Clusters, rep.Limit)
		}
		if len(rep.Network) > 0 {
			fmt.Fprintf(&b, " network %v", rep.Network)
		}
		if rep.Error != nil {
			fmt.Fprintf(&b, " %s", rep.Error.Code)
		}
		fmt.Fprintf(&b, " tenant %s dirty %t draining %t\n", rep.GlobalAccountID, rep.MarkedDirty, rep.Draining)
	}
	for _, name := range slices.Sorted(maps.Keys(facts.Watched.Labels)) {
		for _, label := range facts.Watched.Labels[name] {
			fmt.Fprintf(&b, "%s label %s tenant %s dirty %t generation %d\n",
				label.At.UTC().Format("15:04:05.000"), name, label.Tenant, label.Dirty, label.Generation)
		}
	}
	for id, at := range facts.Watched.Departed {
		fmt.Fprintf(&b, "%s departs %s\n", at.UTC().Format("15:04:05.000"), id)
	}
	for _, c := range facts.Watched.Clusters {
		fmt.Fprintf(&b, "cluster of %s on %s gone %s\n", c.Runtime, c.Binding, c.Gone.UTC().Format("15:04:05.000"))
	}
	for _, name := range slices.Sorted(maps.Keys(facts.Bindings)) {
		fmt.Fprintf(&b, "binding %+v\n    record %+v\n", facts.Bindings[name], facts.Record(facts.Bindings[name]))
	}
	for _, id := range slices.Sorted(maps.Keys(facts.Runtimes)) {
		fmt.Fprintf(&b, "runtime %s %+v\n", id, facts.Runtimes[id])
	}
	if err := os.WriteFile(filepath.Join(l.o.Dir, name), []byte(b.String()), 0o600); err != nil {
		l.o.Log("dump: %v", err)
	}
}
