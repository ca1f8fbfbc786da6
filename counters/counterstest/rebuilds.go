package counterstest

import (
	"errors"
	"time"

	"pgregory.net/rapid"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/account/accounttest"
)

// lease is the time in which no other worker may take over a rebuild.
const lease = time.Second

// elsewhere is the run id of a former run of the server.
const elsewhere = "over"

// fail loses everything, restarts the server with its data, discards the pool as an operator does, or
// does nothing. Then workers rebuild, die, come too late and are overtaken, until one of them completes.
func (p *pair) fail(t *rapid.T) {
	kind := pick("nothing", "loss", "loss", "restart", "operator").Draw(t, "fault")
	before := p.epoch
	switch kind {
	case "loss":
		p.lose(t)
	case "restart":
		p.restart(t)
	case "operator":
		both(p, t, func(m accounttest.Machine) (bool, error) { return m.Discard(p.ctx, pool) }, plain)
	}
	tokens := []string{p.token("e"), p.token("e")}
	for range counts.Draw(t, "steps") {
		p.check(t)
		p.stumble(t, pick(tokens...).Draw(t, "token"))
	}
	p.now = p.now.Add(2 * lease)
	p.rebuild(t)
	switch {
	case p.epoch == before:
	case kind == "loss":
		p.tally.came(rebuiltAfterLoss)
	case kind == "restart":
		p.tally.came(rebuiltAfterRestart)
	case kind == "operator":
		p.tally.came(rebuiltByOperator)
	}
}

func (p *pair) lose(t *rapid.T) {
	if err := errors.Join(p.model.Lose(p.ctx), p.store.Lose(p.ctx)); err != nil {
		t.Fatal(err)
	}
}

// restart simulates a restart of the server with its data: records stay, and epochs and the tokens of rebuilds
// are then those of a former run.
func (p *pair) restart(t *rapid.T) {
	p.model.Restart()
	if err := p.store.restarted(p.ctx); err != nil {
		t.Fatal(err)
	}
}

// stumble does one step of a rebuild, which need not lead to an install, or something else that may
// happen during a rebuild.
func (p *pair) stumble(t *rapid.T, token string) {
	switch pick("begin", "begin", "renew", "install", "wait", "assign", "deprovision", "lose", "restart").Draw(t, "step") {
	case "begin":
		p.begin(t, token)
	case "renew":
		both(p, t, func(m accounttest.Machine) (bool, error) {
			return m.RenewRebuild(p.ctx, pool, token, p.now)
		}, plain)
	case "install":
		p.install(t, token)
	case "wait":
		p.now = p.now.Add(pick(lease/2, lease).Draw(t, "time"))
	case "assign":
		p.assign(t)
	case "deprovision":
		p.deprovision(t)
	case "lose":
		p.lose(t)
		p.rebuilding = ""
	case "restart":
		p.restart(t)
		p.rebuilding = ""
	}
}

// rebuild begins and installs.
func (p *pair) rebuild(t *rapid.T) {
	token := p.token("e")
	p.begin(t, token)
	p.install(t, token)
}

func (p *pair) begin(t *rapid.T, token string) {
	mine := both(p, t, func(m accounttest.Machine) (bool, error) {
		return m.BeginRebuild(p.ctx, pool, token, p.now, lease)
	}, plain)
	switch {
	case p.model.Pool(pool).Status().Built:
		p.tally.came(notNeeded)
	case mine && p.rebuilding != "" && p.rebuilding != token:
		p.tally.came(takenOver)
	case !mine:
		p.tally.came(leftAlone)
	}
	if mine {
		p.rebuilding = token
	}
}

// install installs records such as a rebuild leaves: no binding in claiming, and nothing
// confirmed except shared bindings and runtimes that were answered.
func (p *pair) install(t *rapid.T, token string) {
	snapshot := drawSnapshot(t, p.shared)
	ok := both(p, t, func(m accounttest.Machine) (bool, error) {
		return m.Install(p.ctx, pool, token, snapshot)
	}, plain)
	if !ok {
		p.tally.came(tooLate)
		return
	}
	p.epoch, p.rebuilding = token, ""
}

func drawSnapshot(t *rapid.T, shared bool) account.Snapshot {
	of := engine.ParsePool(pool)
	of.Shared = shared
	g, owners := account.NewGathering(), map[string]string{}
	for _, name := range rapid.SliceOfNDistinct(bindings, 0, 4, rapid.ID).Draw(t, "labelled") {
		owners[name] = tenants.Draw(t, "tenant")
		g.Binding(engine.Binding{
			Name: name, HyperscalerType: of.HyperscalerType, EUAccess: of.EUAccess, Shared: of.Shared, Tenant: owners[name],
			Generation: low.Draw(t, "generation"), Dirty: rarely.Draw(t, "dirty"),
		})
	}
	for n, id := range rapid.SliceOfNDistinct(runtimes, 0, 4, rapid.ID).Draw(t, "known") {
		a := account.Answer{
			Pool: of.Name(), Runtime: id, Request: requests.Draw(t, "request"), State: answers.Draw(t, "state"), Sequence: int64(n + 1),
		}
		if a.State == account.RuntimeAssigned || a.State == account.RuntimeGone {
			a.Binding = bindings.Draw(t, "binding")
		}
		if a.Tenant = owners[a.Binding]; a.Tenant == "" {
			a.Tenant = "elsewhere"
		}
		g.Answer(a)
	}
	return g.Contents().Pool(of.Name())
}

var counts = pick(0, 1, 2, 3, 4, 5, 6, 7)

var answers = pick(
	account.RuntimeAssigned, account.RuntimeAssigned, account.RuntimeWaiting, account.RuntimeGone, account.RuntimeRefused,
)
