package main

// at is the next step of a worker.
type at uint8

const (
	idle at = iota
	locating
	asking
	reading
	labelling
	confirming
	revoking
	lookingAgain
	entering
	sayingWaiting
	refusing
	publishing
	takingBack
	acking
	departing
	releasing
	superseding
	inspecting
	dirtyAsking
	relooking
	dirtyWriting
	unclaiming
	unclaimFreeing
	releaseReading
	releaseCounting
	releaseWriting
	releaseFreeing
	observing
	auditing
	purging
	purgingRest
	droppingEntry
	droppingRecord
	recording
	outlasting
	sealing
	ledgerReading
	labelsReading
	shootsReading
	installing
)

// thing is the subject of a step: b a binding, r a runtime, e an event.
type thing struct{ kind, n byte }

// move is a possible step, with the state after it.
type move struct {
	next   state
	who    int8   // the worker, or -1
	what   string // with %s for the thing
	on     thing
	fault  bool   // no worker makes it by itself: a fault, a second delivery, or another writer's step
	broken string // the invariant that the step itself violates
}

// model is a configuration with the rules that are switched off.
type model struct {
	config
	off   ruleSet
	redis *redis
	dirs  *directory
	found *gatherings
	out   []move

	servers *servers
	at      int  // the server of the current steps
	second  bool // the other server's steps were added already
}

func newModel(c config, off ruleSet) *model {
	r := newRedis(c.terms())
	r.lenient, r.blind = c.budget.forgets > 0, off[rulePaused]
	return &model{config: c, off: off, redis: r, dirs: &directory{redis: r}, found: newGatherings(r), servers: newServers()}
}

// moves returns all steps from s. The result is valid until the next call.
func (m *model) moves(s *state) []move {
	m.out = m.out[:0]
	m.publishers(s)
	m.clusters(s)
	m.trouble(s)
	if m.replicated {
		m.failover(s)
		m.workOnBoth(s)
	} else {
		m.work(s)
	}
	return m.out
}

// work adds the steps of all workers.
func (m *model) work(s *state) {
	for w := range m.workers {
		if w > 0 && s.workers[w] == s.workers[w-1] {
			continue // identical to the worker before
		}
		if s.workers[w].at == idle {
			m.begin(s, w)
			continue
		}
		if m.second && !scripts[s.workers[w].at] {
			continue
		}
		if s.left.crash > 0 {
			n := *s
			n.left.crash--
			n.workers[w] = worker{}
			m.fault(&n, w, "dies", thing{})
		}
		m.step(s, w)
	}
}

func (m *model) add(n *state, w int, what string, on thing) *move {
	m.out = append(m.out, move{next: *n, who: int8(w), what: what, on: on})
	return &m.out[len(m.out)-1]
}

func (m *model) fault(n *state, w int, what string, on thing) {
	m.add(n, w, what, on).fault = true
}

// script adds a step that ran a script, with the invariant that it violates.
func (m *model) script(n *state, w int, what string, on thing, r result) {
	m.add(n, w, what, on).broken = r.broken
}

// giveUp ends the handling because Redis is not built: the event is redelivered.
func (m *model) giveUp(s *state, w int) {
	n := *s
	n.workers[w] = worker{}
	m.add(&n, w, "finds Redis not built and gives up for now", thing{})
}

func onBinding(b uint8) thing { return thing{'b', b} }
func onEvent(e uint8) thing   { return thing{'e', e} }
func onRuntime(r uint8) thing { return thing{'r', r} }

func (m *model) step(s *state, w int) {
	steps := [...]func(*state, int){
		locating: m.locate, asking: m.ask, reading: m.readLabel, labelling: m.writeLabel, confirming: m.confirmClaim,
		revoking: m.revokeClaim, lookingAgain: m.readAgain, entering: m.enterRoom, sayingWaiting: m.sayWaiting, refusing: m.refuseRequest,
		publishing: m.publish, takingBack: m.takeBack, acking: m.ack,
		departing: m.depart, releasing: m.releaseRuntime, superseding: m.supersede,
		inspecting: m.inspect, dirtyAsking: m.askDirty, relooking: m.lookAgain, dirtyWriting: m.writeDirty,
		unclaiming: m.unclaim, unclaimFreeing: m.freeUnclaimed,
		releaseReading: m.readReleased, releaseCounting: m.countReleased, releaseWriting: m.writeReleased, releaseFreeing: m.free,
		observing: m.observe, auditing: m.repair,
		purging: m.purge, purgingRest: m.purge, droppingEntry: m.dropEntry, droppingRecord: m.dropRecord, recording: m.writeRecord, outlasting: m.outlast, sealing: m.seal, ledgerReading: m.readLedger, labelsReading: m.readLabels,
		shootsReading: m.readShoots, installing: m.install,
	}
	steps[s.workers[w].at](s, w)
}
