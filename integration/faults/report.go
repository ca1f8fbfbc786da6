package faults

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/integration/checker"
)

// Report is what a run did and found.
type Report struct {
	Seed       uint64
	Duration   time.Duration
	Figures    map[string]int // how often what happened
	Median     time.Duration  // from publishing to the final reply
	P99        time.Duration
	Settled    time.Duration // after everything was healed
	Violations []string
}

// String is the report as a table.
func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d, load of %s, settled %.1fs after it was healed\n", r.Seed, r.Duration, r.Settled.Seconds())
	fmt.Fprintf(&b, "final replies after %s in the median, %s at the 99th percentile\n", r.Median.Round(time.Millisecond), r.P99.Round(time.Millisecond))
	for _, name := range slices.Sorted(maps.Keys(r.Figures)) {
		fmt.Fprintf(&b, "%8d  %s\n", r.Figures[name], name)
	}
	for _, v := range r.Violations {
		fmt.Fprintf(&b, "VIOLATION  %s\n", v)
	}
	return b.String()
}

// conclude waits until everything is settled and checks, then gives all runtimes
// back and checks that every account is free again.
func (r *run) conclude() (*Report, error) {
	begin := time.Now()
	r.busy.Wait()
	facts, found, err := r.settle()
	if err != nil {
		return nil, err
	}
	settled := time.Since(begin)
	r.dump(facts, "facts.txt")
	if len(found) == 0 {
		if found, err = r.empty(); err != nil {
			return nil, err
		}
	}
	found = append(append(found, r.crashes()...), r.failures...)
	return r.report(facts, settled, found), nil
}

// settle reads everything again and again until nothing is wrong, or for as long
// as it may take; what is wrong then is found.
func (r *run) settle() (facts checker.Facts, found []string, err error) {
	for begin := time.Now(); ; {
		facts, err = r.facts()
		if err == nil {
			found = r.wrong(facts)
		}
		if (err == nil && len(found) == 0) || time.Since(begin) > r.o.Settle || !pause(r.ctx, time.Second) {
			return facts, found, err
		}
	}
}

func (r *run) facts() (checker.Facts, error) {
	facts, err := checker.Read(r.ctx, r.sources)
	if err != nil {
		return facts, err
	}
	facts.Watched = r.watched()
	facts.Published, facts.Unreadable = r.copied()
	facts.Dead, err = r.dead()
	return facts, err
}

// wrong is everything that is not as it must be in the end.
func (r *run) wrong(facts checker.Facts) []string {
	var found []string
	for _, stream := range []string{events.StreamEvents, events.StreamWaiting} {
		if left, err := r.left(stream); err != nil || left > 0 {
			found = append(found, fmt.Sprintf("I8 NothingLost: %d messages are left in %s, error %v", left, stream, err))
		}
	}
	if n := underway(facts); n > 0 {
		found = append(found, fmt.Sprintf("drift: %d bindings are still draining or dirty", n))
	}
	found = append(found, facts.Violations(checker.Terms{OneAccount: true, Several: several()})...)
	return append(found, facts.Drift()...)
}

// empty gives all runtimes back. Then every account is free, but for those that
// were claimed for an answer that nobody got.
func (r *run) empty() ([]string, error) {
	for {
		rt := r.some(func(rt *runtime) bool { return rt.state != leaving })
		if rt == nil {
			break
		}
		r.end(rt)
	}
	r.busy.Wait()
	facts, found, err := r.settle()
	if err != nil {
		return nil, err
	}
	idle := facts.Idle()
	r.counts["idle claims in the end, which nobody was told of"] = len(idle)
	for name, b := range facts.Bindings {
		held := b.Tenant != "" && !slices.Contains(idle, name)
		if held || b.Dirty || facts.Records[name].Count > 0 {
			found = append(found, fmt.Sprintf("in the end %s is not free: %+v, record %+v", name, b, facts.Records[name]))
		}
	}
	if len(found) > 0 {
		r.dump(facts, "facts-in-the-end.txt")
	}
	return found, nil
}

func (r *run) report(facts checker.Facts, settled time.Duration, found []string) *Report {
	report := &Report{Seed: r.o.Seed, Duration: r.o.Duration, Settled: settled, Violations: found, Figures: map[string]int{}}
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.Copy(report.Figures, r.injector.counts())
	maps.Copy(report.Figures, r.counts)
	for kind, n := range r.happened {
		report.Figures["fault: "+string(kind)] = n
	}
	report.Figures["faults skipped, since the last one of the part was not over"] = r.skipped
	report.Figures["runtimes"] = len(r.order)
	report.Figures["bindings"] = len(facts.Bindings)
	for _, labels := range r.labels {
		report.Figures["changes of labels"] += len(labels) - 1
	}
	for what, text := range map[string]string{
		"log: rebuilds": `"msg":"rebuilt"`, "log: claims revoked": `"msg":"claim revoked"`, "log: claims failed": `"msg":"claim failed"`,
		"log: events that came again": `"msg":"event comes again"`, "log: attempts repeated": `"msg":"trying again"`,
	} {
		for n := range r.o.Workers {
			content, _ := os.ReadFile(r.logOf(n))
			report.Figures[what] += bytes.Count(content, []byte(text))
		}
	}
	if took := slices.Sorted(slices.Values(r.took)); len(took) > 0 {
		report.Median, report.P99 = took[len(took)/2], took[len(took)*99/100]
	}
	return report
}

// dump writes what was read into a file beside the logs, for whoever looks for a cause.
func (r *run) dump(facts checker.Facts, name string) {
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
		if rep.Error != nil {
			fmt.Fprintf(&b, " %s", rep.Error.Code)
		}
		fmt.Fprintf(&b, " tenant %s dirty %t draining %t\n", rep.GlobalAccountID, rep.MarkedDirty, rep.Draining)
	}
	for _, name := range slices.Sorted(maps.Keys(facts.Watched.Labels)) {
		for _, l := range facts.Watched.Labels[name] {
			fmt.Fprintf(&b, "%s label %s tenant %s dirty %t generation %d\n", l.At.UTC().Format("15:04:05.000"), name, l.Tenant, l.Dirty, l.Generation)
		}
	}
	for id, at := range facts.Watched.Departed {
		fmt.Fprintf(&b, "%s departs %s\n", at.UTC().Format("15:04:05.000"), id)
	}
	for _, c := range facts.Watched.Clusters {
		fmt.Fprintf(&b, "cluster of %s on %s gone %s\n", c.Runtime, c.Binding, c.Gone.UTC().Format("15:04:05.000"))
	}
	for _, name := range slices.Sorted(maps.Keys(facts.Bindings)) {
		fmt.Fprintf(&b, "binding %+v\n    record %+v\n", facts.Bindings[name], facts.Records[name])
	}
	for _, id := range slices.Sorted(maps.Keys(facts.Runtimes)) {
		fmt.Fprintf(&b, "runtime %s %+v\n", id, facts.Runtimes[id])
	}
	if err := os.WriteFile(r.o.Dir+"/"+name, []byte(b.String()), 0o600); err != nil {
		r.o.Log("dump: %v", err)
	}
}
