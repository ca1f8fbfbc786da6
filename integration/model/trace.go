package main

import (
	"fmt"
	"slices"
	"strings"
)

// trace returns the way to a violation: a line for each step, followed by its changes.
func (x *explorer) trace(v violation) (lines []string, steps int) {
	var way []uint32
	for i := v.at; i != 0; i = x.parents[i] {
		way = append(way, i)
	}
	names := [maxWorkers]byte{'A', 'B', 'C'}
	now := uint32(0)
	for _, there := range slices.Backward(way) {
		s := *x.at(now)
		for _, move := range x.moves(&s) {
			next := move.next
			from := next.order(x.workers)
			if next != *x.at(there) || move.broken != "" {
				continue
			}
			steps++
			lines = append(lines, x.told(steps, &s, move, names)...)
			was := names
			for to := range names {
				names[to] = was[from[to]]
			}
			break
		}
		now = there
	}
	if v.move >= 0 {
		s := *x.at(now)
		steps++
		lines = append(lines, x.told(steps, &s, x.moves(&s)[v.move], names)...)
	}
	return lines, steps
}

func (m *model) told(step int, s *state, v move, names [maxWorkers]byte) []string {
	what := v.what
	if strings.Contains(what, "%s") {
		what = fmt.Sprintf(what, m.name(v.on))
	}
	who := ""
	if v.who >= 0 {
		who = string(names[v.who]) + " "
		if k := s.workers[v.who]; k.at != idle && k.key < sweepKey && v.on.kind != 'e' {
			who += "(" + requestName(k.key) + ") "
		}
	}
	lines := []string{fmt.Sprintf("%3d  %s%s", step, who, what)}
	for _, change := range m.changes(s, &v.next) {
		lines = append(lines, "       "+change)
	}
	return lines
}

func (m *model) name(on thing) string {
	if on.kind != 'e' {
		return string(on.kind) + string('0'+on.n)
	}
	v := m.events[on.n]
	var of string
	switch v.kind {
	case provision:
		of = fmt.Sprintf("provision of r%d for t%d", v.of, m.tenants[v.of])
		if m.directory {
			of += " in pool " + poolNames[v.pool]
		}
	case deprovision:
		of = "deprovision of r" + string('0'+v.of)
	default:
		of = "release of b" + string('0'+v.of)
	}
	return fmt.Sprintf("e%d (%s)", on.n, of)
}

// changes describes the changes of a step, except in the workers.
func (m *model) changes(was, is *state) []string {
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	for b := range m.bindings {
		if was.labels[b] != is.labels[b] {
			say("label b%d: %s", b, is.labels[b])
		}
		for p := range m.pools {
			m.changedBinding(b, p, &was.pools[p], &is.pools[p], say)
		}
	}
	for p := range m.pools {
		changedPool(&was.pools[p], &is.pools[p], say)
	}
	for r := range maxRuntimes {
		if was.bucket.places[r] != is.bucket.places[r] {
			say("directory r%d: %s", r, is.bucket.places[r])
		}
	}
	for e := range m.events {
		if was.replies[e] != is.replies[e] {
			say("reply e%d: %s", e, is.replies[e])
		}
	}
	return out
}

// changedBinding describes the change of a binding in a pool.
func (m *model) changedBinding(b int, p uint8, was, is *pool, say func(string, ...any)) {
	if was.bindings[b] == is.bindings[b] {
		return
	}
	in := ""
	if m.relocates() && m.pools > 1 {
		in = " in pool " + poolNames[p]
	}
	say("Redis b%d%s: %s", b, in, is.bindings[b])
}

// changedPool describes the changes of a pool except for its bindings.
func changedPool(was, is *pool, say func(string, ...any)) {
	if was.paused != is.paused {
		say("Redis: paused %t", is.paused)
	}
	for r := range maxRuntimes {
		if was.runtimes[r] != is.runtimes[r] {
			say("Redis r%d: %s", r, is.runtimes[r])
		}
	}
}

func (l label) String() string {
	if l.deleted {
		return "deleted"
	}
	text := "unclaimed"
	if l.tenant != 0 {
		text = tenantName(l.tenant)
	}
	if l.dirty {
		text += ", dirty"
	}
	if l.cordoned {
		text += ", cordoned"
	}
	text += fmt.Sprintf(", generation %d", l.generation)
	if l.epoch != 0 {
		text += ", " + epochName(l.epoch)
	}
	if l.in != 0 {
		text += fmt.Sprintf(", claimed in pool %s for %s", poolNames[l.in-1], tenantName(l.whose))
	}
	if l.releasedBy != 0 {
		text += ", released by " + requestName(l.releasedBy-1)
	}
	return text
}

func (r record) String() string {
	if r == (record{}) {
		return "free"
	}
	text := string(states[r.state])
	if r.tenant != 0 {
		text += fmt.Sprintf(" by %s, generation %d", tenantName(r.tenant), r.generation)
	}
	if r.state != dirtying && !r.confirmed {
		text += ", not confirmed"
	}
	return fmt.Sprintf("%s, %d on it", text, r.count)
}

func (rt runtime) String() string {
	if rt == (runtime{}) {
		return "unknown"
	}
	text := string(runtimeStates[rt.state])
	if rt.binding > 0 {
		text += " " + bindingName(rt.binding-1)
	}
	text += fmt.Sprintf(", sequence %d", rt.sequence)
	if rt.confirmed {
		text += ", confirmed"
	}
	return text
}

func (p place) String() string {
	switch p.pool {
	case 0:
		return "unknown"
	case gone:
		return "gone"
	default:
		return "pool " + poolNames[p.pool-1]
	}
}

func (r reply) String() string {
	text := r.status.String()
	if r.binding > 0 {
		text += " " + bindingName(r.binding-1)
	}
	if r.sequence > 0 {
		text += fmt.Sprintf(", sequence %d", r.sequence)
	}
	return text
}
