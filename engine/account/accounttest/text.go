package accounttest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hap-worker/hap-worker/engine/account"
)

// words collects the words of a line.
type words []string

func (w *words) add(format string, args ...any) { *w = append(*w, fmt.Sprintf(format, args...)) }

func (w *words) text(key, value string) {
	if value != "" {
		w.add("%s=%s", key, value)
	}
}

func (w *words) number(key string, n int64) {
	if n != 0 {
		w.add("%s=%d", key, n)
	}
}

func (w *words) flag(word string, b bool) {
	if b {
		w.add("%s", word)
	}
}

func (w *words) String() string { return strings.Join(*w, " ") }

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// Decision writes a decision: one line, then one for each considered binding.
func Decision(d account.Decision) string {
	var w words
	w.add("%s", d.Outcome)
	w.text("binding", d.Binding)
	w.number("g", d.Generation)
	w.number("seq", d.Sequence)
	w.flag("confirmed", d.Confirmed)
	w.text("origin", string(d.Origin))
	w.text("request", d.Request)
	w.flag("repeated", d.Repeated)
	w.number("count", int64(d.Count))
	w.number("position", int64(d.Position))
	w.text("epoch", d.Epoch)
	lines := []string{w.String()}
	for _, c := range d.Considered {
		lines = append(lines, fmt.Sprintf("  %s %d %s", c.Binding, c.Clusters, c.Verdict))
	}
	return strings.Join(lines, "\n")
}

// Departure writes a departure.
func Departure(d account.Departure) string {
	var w words
	switch {
	case d.Foreign:
		w.add("foreign")
	case d.Moved:
		w.add("moved")
	case d.Unknown:
		w.add("unknown")
	default:
		w.add("gone")
	}
	w.text("binding", d.Binding)
	w.text("tenant", d.Tenant)
	w.number("g", d.Generation)
	w.number("seq", d.Sequence)
	w.number("count", int64(d.Count))
	w.text("state", string(d.State))
	w.flag("repeated", d.Repeated)
	w.text("waited", d.Waited)
	return w.String()
}

// Permit writes what begin-dirtying allows.
func Permit(p account.Permit) string {
	if !p.Given {
		return "no"
	}
	w := words{"yes"}
	w.flag(p.Tenant, p.Tenant != "")
	w.flag("pristine", p.Pristine)
	return w.String()
}

// Observation writes what a label changed.
func Observation(o account.Observation) string {
	if o.Change == "" {
		return "unchanged: " + record(o.Record)
	}
	return fmt.Sprintf("%s: %s -> %s", o.Change, record(o.Before), record(o.Record))
}

// Place writes a directory entry.
func Place(p account.Place) string {
	if p.Tentative {
		return fmt.Sprintf("gone tentative seq=%d", p.Sequence)
	}
	if p.Gone {
		return fmt.Sprintf("gone seq=%d", p.Sequence)
	}
	if p.Sequence > 0 {
		return fmt.Sprintf("pool %s after=%d", p.Pool, p.Sequence)
	}
	if p.Pool == "" {
		return "none"
	}
	return "pool " + p.Pool
}

func record(r account.Record) string {
	var w words
	w.add("%s", r.State)
	w.text("tenant", r.Tenant)
	w.number("g", r.Generation)
	w.flag("confirmed", r.Confirmed)
	w.number("count", int64(r.Count))
	w.number("claimed", r.Claimed)
	w.flag("pristine", r.Pristine)
	return w.String()
}

func runtime(r account.Runtime) string {
	var w words
	w.add("%s", r.State)
	w.text("on", r.Binding)
	w.number("seq", r.Sequence)
	w.text("request", r.Request)
	w.flag("confirmed", r.Confirmed)
	w.text("origin", string(r.Origin))
	w.text("tenant", r.Tenant)
	return w.String()
}

// Records returns all records of a pool as text, with its sequence, epoch and pause. The tenants' turns are not in it:
// compare Queue, too.
func Records(ctx context.Context, m Machine, pool string) (string, error) {
	bindings, runtimes, err := m.Records(ctx, pool)
	if err != nil {
		return "", err
	}
	status, err := m.Status(ctx, pool)
	if err != nil {
		return "", err
	}
	return Remembered(status, bindings, runtimes), nil
}

// Remembered is Records for records that were read already.
func Remembered(status account.Status, bindings []account.NamedRecord, runtimes []account.NamedRuntime) string {
	var w words
	w.add("seq=%d", status.Sequence)
	w.number("waiting", int64(status.Waiting))
	w.flag("paused", status.Paused)
	w.text("epoch", status.Epoch)
	return strings.Join(append([]string{w.String()}, lines(bindings, runtimes)...), "\n")
}

func lines(bindings []account.NamedRecord, runtimes []account.NamedRuntime) []string {
	var lines []string
	for _, b := range bindings {
		lines = append(lines, "binding "+b.Binding+" "+record(b.Record))
	}
	for _, r := range runtimes {
		lines = append(lines, "runtime "+r.ID+" "+runtime(r.Runtime))
	}
	return lines
}

// Snapshot writes a pool's snapshot in the form of Records.
func Snapshot(s account.Snapshot) string {
	out := []string{fmt.Sprintf("seq=%d", s.Sequence)}
	var bindings []account.NamedRecord
	for _, name := range slices.Sorted(maps.Keys(s.Bindings)) {
		bindings = append(bindings, account.NamedRecord{Binding: name, Record: s.Bindings[name]})
	}
	var runtimes []account.NamedRuntime
	for id, rt := range s.EachRuntime() {
		runtimes = append(runtimes, account.NamedRuntime{ID: id, Runtime: rt})
	}
	slices.SortFunc(runtimes, func(a, b account.NamedRuntime) int { return cmp.Compare(a.ID, b.ID) })
	return strings.Join(append(out, lines(bindings, runtimes)...), "\n")
}
