package simulation

import (
	"fmt"
	"slices"
	"testing/synctest"
	"time"

	"github.com/hap-worker/hap-worker/worker/simulation/gate"
	"github.com/hap-worker/hap-worker/worker/simulation/plans"
)

// befallProcess applies a fault of a process, and reports whether it was possible.
func (w *world) befallProcess(p *process, i plans.Item) bool {
	switch i.Kind {
	case plans.Death:
		return w.kill(p, i)
	case plans.Stopping:
		return w.stop(p)
	case plans.Forgetting:
		return w.forget(p)
	case plans.Paused:
		return w.pause(p, i)
	case plans.CutOff:
		return w.cutOff(p, i)
	case plans.CacheLags:
		p.lagging = 20 + i.M%100
	case plans.ClockJumps:
		p.skew.Store(int64(time.Duration(i.M%600-300) * time.Second))
	case plans.Auditing:
		p.audit()
	}
	w.note("fault", string(i.Kind), "", "")
	return true
}

// reconfigure has the processes apply the settings. In one case of three, one does so only at its next sweep.
func (w *world) reconfigure(i plans.Item) {
	for n, p := range w.alive() {
		if p.behind = true; i.M%3 > 0 || i.N%w.plan.Workers != n {
			p.takeUp()
		}
	}
}

// takeUp makes a process apply the current settings, unless it has them already or pauses.
func (p *process) takeUp() {
	if p.behind && !p.world.gate.Held(p) {
		p.behind = false
		p.live.Set(p.world.settings.Decisions())
		p.worker.Wake()
		synctest.Wait()
	}
}

// kill ends a process at whatever call it is in, and starts another. In one case of four, the writes that it had
// sent still take effect.
func (w *world) kill(p *process, i plans.Item) bool {
	w.note("fault", p.name, "dies", "")
	p.dead.Store(true)
	p.iterator.Stop()
	p.cancel()
	synctest.Wait()
	for _, c := range w.gate.Drop(p) {
		if c.Write && i.M%4 == 0 {
			w.effect(c, "its process is dead")
		}
	}
	w.processes = append(w.processes, w.start(1+i.N%w.plan.Workers))
	return true
}

// stop stops a process in order, as an upgrade does, and starts another.
func (w *world) stop(p *process) bool {
	w.note("fault", p.name, "is stopped", "")
	p.ended.Store(true)
	go p.worker.Stop()
	time.AfterFunc(2*drain, p.cancel)
	synctest.Wait()
	w.processes = append(w.processes, w.start(len(w.processes)%w.plan.Workers+1))
	return true
}

// pause holds a process up for longer than most time-outs, while the world goes on. In half of the cases, the calls that
// it has sent take effect, and their answers wait.
func (w *world) pause(p *process, i plans.Item) bool {
	w.note("fault", p.name, "pauses", "")
	for _, c := range w.gate.Open(p) {
		if i.M%2 == 0 && !c.Left && !w.gate.IsDown(p, c.Port) && !w.full(c) {
			w.effect(c, "its process pauses")
			w.gate.Finish(c)
		}
	}
	w.gate.Hold(p, 4+i.M>>1%60)
	return true
}

// cutOff cuts a process off from one of its servers or from all, while other processes reach them.
func (w *world) cutOff(p *process, i plans.Item) bool {
	from, moments := gate.Ports, 2+i.M>>2%60
	if n := i.M % 4; n < len(gate.Ports) {
		from = gate.Ports[n : n+1]
	}
	for _, port := range from {
		w.gate.GoesDown(p, port, moments)
	}
	if slices.Contains(from, gate.Gardener) {
		p.lagging = max(p.lagging, moments)
	}
	w.note("fault", p.name, "is cut off from", fmt.Sprint(from))
	return true
}

// forget lets nearly twice the retention time pass, and then starts retention.
func (w *world) forget(p *process) bool {
	w.pass(int(2 * keep / moment))
	p.forget()
	w.note("fault", string(plans.Forgetting), "", "")
	return true
}
