package worker_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/worker/audit"
	"github.com/hap-worker/hap-worker/worker/config"
	"github.com/hap-worker/hap-worker/worker/memory"
)

// command is a line of a story.
type command struct {
	name  string
	args  []datadriven.CmdArg
	input string
}

// word is the nth argument without a value, "" for none.
func (c command) word(n int) string {
	for _, a := range c.args {
		if len(a.Vals) > 0 {
			continue
		}
		if n == 0 {
			return a.Key
		}
		n--
	}
	return ""
}

func (c command) has(word string) bool {
	for _, a := range c.args {
		if a.Key == word && len(a.Vals) == 0 {
			return true
		}
	}
	return false
}

// get is the value of key=value, otherwise where there is none.
func (c command) get(key, otherwise string) string {
	for _, a := range c.args {
		if a.Key == key && len(a.Vals) > 0 {
			return strings.Join(a.Vals, ",")
		}
	}
	return otherwise
}

func (c command) duration(key string, otherwise time.Duration) (time.Duration, error) {
	return time.ParseDuration(c.get(key, otherwise.String()))
}

// commands are those of a story.
//
//	config, network, policy, catalog, instances     the input is a configuration
//	kind K                                          of the bindings; before the landscape
//	binding NAME TYPE [tenant= generation= dirty released= …]  creates or changes a binding by hand
//	remake NAME TYPE [as for binding]               deletes it and creates it again, between two looks of the cache
//	shoot NAME [on=BINDING tenant= runtime=], delete NAME, delete-shoot NAME, refer SECRET KIND NAME
//	start [unbuilt concurrency= budget= drain=], stop, wait DURATION
//	provision ID RUNTIME TENANT [plan= region= provider= deadline= inbox= interface= cluster= labels= filler=BYTES again]
//	deprovision ID RUNTIME [TENANT], release ID BINDING [generation= uid=], resolve ID RUNTIME PATH
//	publish SUBJECT [id=]                           publishes the input unchanged
//	fail CALL with=FAULT [of= times= always]        makes the next calls fail; story_faults_test.go lists both
//	mend CALL                                       drops the remaining faults of a call
//	before CALL [of=]                               runs the input when the call is made; "at STEP" is a call too
//	hold, proceed                                   hold blocks the call that runs it until proceed
//	lose redis|ranges|consumer|streams, redis CALL … changes a store without the worker
//	payload BYTES                                   the longest message that NATS accepts from now on
//	stale, fresh                                    freezes the cache of labels, and updates it again
//	sweep, audit [repair drain], audits every=, retain, pass   runs a pass beside the worker
//	noted, note CLUSTER [runtime= rule= cidr=]      enables ClusterConfigs, writes one; before the start
//	state, labels, notes, health                           shows the present state
func (w *world) commands() map[string]func(command) (string, error) {
	return map[string]func(command) (string, error){
		"landscape": func(c command) (string, error) { return "", w.doAll(c.input) },
		"config":    w.configure, "network": w.setNetwork, "policy": w.setPolicy, "catalog": w.setPolicy, "instances": w.setPolicy,
		"kind": w.setKind, "binding": w.putBinding, "remake": w.putBinding, "relabel": w.relabel, "shoot": w.putShoot, "delete": w.remove, "delete-shoot": w.remove, "refer": w.refer,
		"start": w.start, "stop": w.stop, "wait": w.wait, "proceed": w.goOn, "hold": w.hold,
		"provision": w.provision, "deprovision": w.deprovision, "release": w.release, "resolve": w.resolve, "publish": w.publishRaw,
		"fail": w.fail, "mend": w.mend, "before": w.before, "lose": w.lose, "redis": w.changeRedis, "payload": w.payload, "stale": w.cache, "fresh": w.cache,
		"sweep": w.sweep, "audit": w.audit, "audits": w.audits, "retain": w.retain, "pass": w.pass,
		"state": func(command) (string, error) { return w.state() }, "labels": w.showLabels, "health": w.health,
		"noted": func(command) (string, error) { w.notes = &scribe{Notes: memory.NewNotes(), w: w}; return "", nil },
		"note":  w.putNote, "notes": w.showNotes,
	}
}

// do runs a command and returns what it shows.
func (w *world) do(c command) (string, error) {
	do := w.commands()[c.name]
	if do == nil {
		return "", fmt.Errorf("no such command: %s", c.name)
	}
	return do(c)
}

// doAll runs one command a line.
func (w *world) doAll(lines string) error {
	for line := range strings.Lines(lines) {
		name, args, err := datadriven.ParseLine(strings.TrimSpace(line))
		if err != nil || name == "" {
			return err
		}
		out, err := w.do(command{name: name, args: args})
		if err != nil {
			return err
		}
		if out != "" {
			w.tell("%s", out)
		}
	}
	return nil
}

func (w *world) configure(c command) (string, error) {
	path := filepath.Join(w.t.TempDir(), "hap.yaml")
	if err := os.WriteFile(path, []byte(c.input), 0o600); err != nil {
		return "", err
	}
	loaded, err := config.Load(path, nil)
	if err != nil {
		return "", err
	}
	decisions, err := loaded.Decisions()
	if err == nil {
		w.live.Set(decisions)
		if w.worker != nil {
			w.worker.Wake()
		}
	}
	return "", err
}

func (w *world) setNetwork(c command) (string, error) {
	parsed, _, err := network.Parse([]byte(c.input))
	if err != nil {
		return "", err
	}
	w.networks.current.Store(parsed)
	if w.extend == nil {
		return "", nil
	}
	w.extend.Wanted()
	return "", nil
}

func (w *world) setKind(c command) (string, error) {
	w.kind = c.word(0)
	w.gardener.Gardener = memory.NewGardener("garden-kyma", w.kind)
	return "", nil
}

func (w *world) putBinding(c command) (string, error) {
	generation, err := strconv.ParseInt(c.get("generation", "0"), 10, 64)
	put := func(b engine.Binding) { w.gardener.Put(b) }
	if c.name == "remake" {
		put = w.gardener.Remake
	}
	put(engine.Binding{
		Name: c.word(0), HyperscalerType: c.word(1), Tenant: c.get("tenant", ""), Generation: generation, Dirty: c.has("dirty"),
		Internal: c.has("internal"), Shared: c.has("shared"), EUAccess: c.has("eu"), Cordoned: c.has("cordoned"), Deleting: c.has("deleting"),
		ReleasedBy: c.get("released", ""),
	})
	if w.worker != nil {
		w.worker.WakeTenant(engine.Binding{HyperscalerType: c.word(1), Shared: c.has("shared"), EUAccess: c.has("eu")}.Pool().Name(), c.get("tenant", "")) // as the labels do, which few stories run
	}
	return "", err
}

// relabel writes another hyperscalerType and shared label on a binding.
func (w *world) relabel(c command) (string, error) {
	b, err := w.gardener.Get(w.ctx, c.word(0))
	if err == nil {
		b.HyperscalerType, b.Shared = c.word(1), c.has("shared")
		w.gardener.Put(b)
	}
	return "", err
}

func (w *world) putShoot(c command) (string, error) {
	w.gardener.PutShoot(engine.Shoot{Name: c.word(0), Binding: c.get("on", ""), Tenant: c.get("tenant", ""), RuntimeID: c.get("runtime", "")})
	return "", nil
}

func (w *world) remove(c command) (string, error) {
	if c.name == "delete" {
		w.gardener.Delete(c.word(0))
	} else {
		w.gardener.DeleteShoot(c.word(0))
	}
	return "", nil
}

func (w *world) refer(c command) (string, error) {
	w.gardener.Refer(c.word(0), c.word(1), c.word(2))
	return "", nil
}

func (w *world) wait(c command) (string, error) {
	d, err := time.ParseDuration(c.word(0))
	time.Sleep(d) // of the bubble
	return "", err
}

func (w *world) hold(command) (string, error) {
	w.mu.Lock()
	gate := w.gate
	w.mu.Unlock()
	select {
	case <-gate:
	case <-w.over:
	}
	return "", nil
}

func (w *world) goOn(command) (string, error) {
	w.proceed()
	return "", nil
}

func (w *world) fail(c command) (string, error) {
	times, err := strconv.Atoi(c.get("times", "1"))
	if err != nil || faults[c.get("with", "")] == nil {
		return "", errors.Join(err, fmt.Errorf("no such fault: %s", c.get("with", "")))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for range times {
		w.hooks[c.word(0)] = append(w.hooks[c.word(0)], hook{fault: c.get("with", ""), of: c.get("of", ""), always: c.has("always")})
	}
	return "", nil
}

func (w *world) mend(c command) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.hooks, c.word(0))
	return "", nil
}

func (w *world) payload(c command) (string, error) {
	bytes, err := strconv.ParseInt(c.word(0), 10, 64)
	w.broker.SetMaxPayload(bytes)
	return "", err
}

func (w *world) before(c command) (string, error) {
	call := c.word(0)
	if call == "at" {
		call += " " + c.word(1)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hooks[call] = append(w.hooks[call], hook{commands: c.input, of: c.get("of", "")})
	return "", nil
}

func (w *world) lose(c command) (string, error) {
	switch c.word(0) {
	case "redis":
		w.blocks.Lose()
		return "", w.redis.Lose(w.ctx)
	case "ranges":
		w.blocks.Lose()
		return "", nil
	case "consumer":
		return "", w.broker.DeleteConsumer(events.StreamEvents, events.ConsumerWorker)
	case "streams":
		return "", w.broker.DeleteStream(events.StreamEvents)
	default:
		return "", fmt.Errorf("nothing to lose: %s", c.word(0))
	}
}

// changeRedis makes one call that no worker makes at this moment.
func (w *world) changeRedis(c command) (string, error) {
	ctx, pool, runtime := w.ctx, c.get("pool", "aws"), c.word(1)
	var err error
	switch c.word(0) {
	case "release":
		_, err = w.redis.Counters.ReleaseRuntime(ctx, account.Place{Pool: pool}, runtime, "")
	case "locate":
		_, err = w.redis.Counters.Locate(ctx, runtime, pool)
	case "leave":
		var place account.Place
		if place, err = w.redis.Counters.Place(ctx, runtime); err == nil {
			_, _, err = w.redis.Counters.Leave(ctx, place, runtime, c.word(2), c.word(3))
		}
	case "forget-place":
		_, err = w.redis.ForgetPlace(ctx, runtime, account.Place{Pool: pool})
	case "forget":
		var rt account.Runtime
		if rt, err = w.redis.RuntimeIn(ctx, pool, runtime); err == nil {
			_, err = w.redis.Forget(ctx, pool, runtime, rt.Sequence)
		}
	case "drop":
		_, err = w.redis.DropAdopted(ctx, pool, runtime, c.get("binding", ""))
	case "take-back":
		err = w.redis.Counters.TakeBack(ctx, pool, runtime, c.word(2), c.word(3))
	case "assign":
		_, err = w.redis.Counters.Assign(ctx, pool, account.Request{
			Runtime: runtime, Request: c.get("request", ""), Tenant: c.get("tenant", ""), All: true,
			Seen: []account.Seen{{Binding: c.get("binding", ""), Mine: c.has("mine")}},
		})
	case "discard":
		_, err = w.redis.Discard(ctx, pool)
	case "release-blocks":
		_, err = w.blocks.Release(ctx, runtime)
	case "acquire-blocks":
		_, err = w.blocks.Restore(ctx, network.Record{Cluster: runtime, Requests: []string{c.get("request", "by-hand")}, Applied: network.Applied{
			Rule: "by-hand", Blocks: []network.Block{{CIDR: netip.MustParsePrefix(c.word(2)), Paths: []string{"/by/hand"}}},
		}})
	case "begin-rebuild":
		_, err = w.redis.BeginRebuild(ctx, pool, "another-worker", time.Now(), 10*time.Second)
	case "pause":
		err = w.redis.Pause(ctx, pool)
	case "resume":
		err = w.redis.Resume(ctx, pool)
	default:
		err = fmt.Errorf("no such change: %s", c.word(0))
	}
	return "", err
}

func (w *world) cache(c command) (string, error) {
	if c.name == "stale" {
		w.gardener.Hold()
	} else {
		w.gardener.Follow()
	}
	return "", nil
}

func (w *world) sweep(command) (string, error) {
	w.running.Go(func() { w.labels.Run(w.ctx) })
	return "", nil
}

func (w *world) audit(c command) (string, error) {
	a := w.auditor.Audit
	found, err := a.Verify(w.ctx)
	var changed []account.Drift
	if err == nil && c.has("repair") {
		changed, err = a.RepairAll(w.ctx, found.Drifts, c.has("drain"))
	}
	return drifts(found.Drifts, changed, found.NotBuilt, err), nil
}

func (w *world) audits(c command) (string, error) {
	every, err := c.duration("every", time.Hour)
	auditor := &audit.Auditor{
		Audit: w.auditor.Audit, Observer: w.observer(), Settings: func() (time.Duration, bool) { return every, true },
	}
	w.running.Go(func() { auditor.Run(w.ctx) })
	return "", err
}

func (w *world) retain(c command) (string, error) {
	if c.has("always") {
		w.running.Go(func() { w.purger.Run(w.ctx) })
		return "", nil
	}
	w.purger.Once(w.ctx)
	return "", nil
}

func (w *world) pass(command) (string, error) { return "", w.extend.Pass(w.ctx) }

func (w *world) showLabels(command) (string, error) {
	var lines []string
	err := w.gardener.List(context.Background(), func(b engine.Binding) error {
		lines = append(lines, labels(b))
		return nil
	})
	return strings.Join(lines, "\n"), err
}

// health shows what the worker says of itself.
func (w *world) health(command) (string, error) {
	return fmt.Sprintf("consuming %v, deaf %v, stuck %v, in flight %d", w.worker.Consuming(), w.worker.Deaf(), w.worker.Stuck(), w.worker.InFlight()), nil
}
