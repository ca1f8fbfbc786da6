package worker_test

import (
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/dead"
	"github.com/hap-worker/hap-worker/worker"
	"github.com/hap-worker/hap-worker/worker/audit"
	"github.com/hap-worker/hap-worker/worker/ranges"
	"github.com/hap-worker/hap-worker/worker/rebuild"
	"github.com/hap-worker/hap-worker/worker/reconcile"
	"github.com/hap-worker/hap-worker/worker/retention"
)

// start waits for the rebuild of everything that is not built, then starts a worker. A second one replaces the
// first.
func (w *world) start(c command) (string, error) {
	o, err := w.options(c)
	if err != nil {
		return "", err
	}
	first := w.rebuilder == nil
	if first {
		w.beside()
	}
	o.Rebuild, o.Ranges = w.rebuilder, w.allotter()
	if !c.has("unbuilt") {
		if err := w.rebuilder.Ensure(w.ctx); err != nil {
			return "", err
		}
	}
	w.worker = worker.New(o)
	w.labels = &reconcile.Labels{
		Worker: w.worker, Bindings: w.gardener, Rebuild: w.rebuilder, Observer: w.observer(), Budget: 10 * time.Second,
		Follower: w.redis, Cache: w.gardener,
	}
	if first && w.extend != nil {
		w.running.Go(func() { w.extend.Run(w.ctx) })
	}
	if first && w.configs != nil {
		w.running.Go(func() { w.configs.Run(w.ctx) })
	}
	return "", w.worker.Start(w.ctx)
}

func (w *world) options(c command) (worker.Options, error) {
	consumer, err := w.broker.Consumer(w.ctx)
	o := worker.Options{
		Consumer: consumer, Subjects: w.subjects, Ledger: w.ledger, Room: w.room, Copies: w.ledger,
		Dead:     &morgue{Letters: dead.NewLettersOn(w.broker, w.subjects), w: w},
		Counters: w.redis, Gardener: w.gardener, Rules: w.live, Observer: w.observer(), Policies: &w.policies,
		Namespace: "garden-kyma", Kind: w.kind, Concurrency: 4,
	}
	if err != nil {
		return o, err
	}
	if n, ok := c.lookup("concurrency"); ok {
		if o.Concurrency, err = strconv.Atoi(n); err != nil {
			return o, err
		}
	}
	if n, ok := c.lookup("pending"); ok {
		if o.MaxAckPending, err = strconv.Atoi(n); err != nil {
			return o, err
		}
	}
	if o.Budget, err = c.duration("budget", 0); err != nil {
		return o, err
	}
	if o.Drain, err = c.duration("drain", 0); err != nil {
		return o, err
	}
	ahead, err := c.duration("ahead", 0)
	o.Now = func() time.Time { return time.Now().Add(ahead) }
	return o, err
}

// beside creates everything that runs beside the worker.
func (w *world) beside() {
	w.gardener.OnChange(func(b engine.Binding, deleted bool) {
		if w.labels != nil {
			w.labels.Changed(b, deleted)
		}
	})
	w.rebuilder = &rebuild.Rebuilder{
		Builder: w.redis, Inventory: w.gardener, Ledger: w.ledger, Waiting: w.room.Addresses, Subjects: w.subjects, Observer: w.observer(),
	}
	w.purger = &retention.Purger{
		Ledger: w.ledger, Records: w.redis, Gardener: w.gardener, Room: w.room, Rebuild: w.rebuilder,
		Keep: 2 * time.Hour, Observer: w.observer(),
	}
	w.auditor = &audit.Auditor{Audit: &audit.Audit{
		Records: w.redis, Repairer: w.redis, Ledger: w.ledger, Inventory: w.gardener, Reader: w.gardener, Waiting: w.room.Addresses,
	}}
	if w.networks.Config() != nil {
		w.rebuilder.Ranges, w.rebuilder.Networks, w.purger.Blocks = w.blocks, w.networks.Config, w.blocks
		w.extend = &ranges.Reconciler{
			Ranges: w.blocks, Networks: w.networks.Config, Ledger: w.ledger, Runtime: w.redis.Runtime, Rebuild: w.rebuilder,
			Subjects: w.subjects, Observer: w.observer(), Keeper: w.blocks, Room: func() { w.worker.Wake() },
		}
		if w.notes != nil {
			w.configs = &ranges.ClusterConfigs{
				Notes: w.notes, Ledger: w.ledger, Networks: w.networks.Config, Runtime: w.redis.Runtime, Observer: w.observer(), Missed: w.extend.Wanted,
			}
			w.extend.Configs, w.rebuilder.Notes, w.purger.Notes = w.configs, w.notes, w.notes
		}
	}
	w.running.Go(func() { w.rebuilder.Run(w.ctx) })
}

// allotter is nil without network ranges.
func (w *world) allotter() *ranges.Allotter {
	if w.extend == nil {
		return nil
	}
	a := &ranges.Allotter{Blocks: &allotments{w.blocks, w}, Networks: w.networks.Config, Late: w.extend, Rebuild: w.rebuilder, Observer: w.observer()}
	if w.configs != nil {
		a.Notes = w.configs
	}
	return a
}

// stop does not wait for the worker, since a hook may block an event in flight.
func (w *world) stop(command) (string, error) {
	stopping := w.worker
	w.running.Go(func() {
		stopping.Stop()
		w.tell("the worker has stopped")
	})
	return "", nil
}

func (c command) lookup(key string) (string, bool) {
	value := c.get(key, "")
	return value, value != ""
}

func (w *world) provision(c command) (string, error) {
	p := &events.Provision{
		RuntimeID: c.word(1), GlobalAccountID: c.word(2), Plan: c.get("plan", "aws"), PlatformRegion: c.get("region", ""),
		Provider: c.get("provider", ""), ReplyTo: c.get("inbox", ""), ShootName: c.get("shoot", ""),
	}
	switch until, given := c.lookup("deadline"); {
	case until == "never": // in UTC it has a year of five digits, which nothing can write
		p.Deadline = time.Date(9999, 12, 31, 23, 59, 59, 0, time.FixedZone("", -(23*60+59)*60))
	case given:
		after, err := c.duration("deadline", 0)
		if err != nil {
			return "", err
		}
		p.Deadline = time.Now().Add(after)
	}
	if path, given := c.lookup("interface"); given {
		path, revision, _ := strings.Cut(path, ":")
		p.Interface = &events.Interface{Path: path, Revision: revision}
	}
	if name, given := c.lookup("cluster"); given {
		p.Cluster = &events.Cluster{Name: name, Namespace: "garden-kyma", Labels: map[string]string{}}
		for label := range strings.SplitSeq(c.get("labels", ""), ",") {
			if key, value, is := strings.Cut(label, ":"); is {
				p.Cluster.Labels[key] = value
			}
		}
		filler, err := strconv.Atoi(c.get("filler", "0"))
		if err != nil {
			return "", err
		}
		if filler > 0 {
			p.Cluster.Labels["filler"] = strings.Repeat("x", filler)
		}
	}
	return w.ask(c, events.Event{Type: events.TypeProvision, RuntimeID: p.RuntimeID, Provision: p})
}

func (w *world) deprovision(c command) (string, error) {
	return w.ask(c, events.Event{Type: events.TypeDeprovision, RuntimeID: c.word(1), Deprovision: &events.Deprovision{
		RuntimeID: c.word(1), GlobalAccountID: c.word(2), ReplyTo: c.get("inbox", ""),
	}})
}

func (w *world) release(c command) (string, error) {
	r := &events.Release{Binding: c.word(1), UID: c.get("uid", "")}
	if given, ok := c.lookup("generation"); ok {
		generation, err := strconv.ParseInt(given, 10, 64)
		if err != nil {
			return "", err
		}
		r.Generation = &generation
	}
	return w.ask(c, events.Event{Type: events.TypeRelease, Binding: r.Binding, Release: r})
}

func (w *world) resolve(c command) (string, error) {
	path, revision, _ := strings.Cut(c.word(2), ":")
	return w.ask(c, events.Event{Type: events.TypeResolve, RuntimeID: c.word(1), Resolve: &events.Resolve{
		RuntimeID: c.word(1), Interface: events.Interface{Path: path, Revision: revision},
	}})
}

// ask publishes an event. With the word "again" it omits the message id, by which the stream would drop it
// as a duplicate.
func (w *world) ask(c command, e events.Event) (string, error) {
	e.ID, e.Source = c.word(0), "/keb"
	msg, err := events.Publication(w.subjects, e)
	if err != nil {
		return "", err
	}
	if c.has("again") {
		msg.Header.Del(jetstream.MsgIDHeader)
	}
	_, err = w.broker.Publish(w.ctx, msg)
	return "", err
}

// publishRaw publishes the input, on a subject without its prefix.
func (w *world) publishRaw(c command) (string, error) {
	_, err := w.broker.Publish(w.ctx, &nats.Msg{Subject: w.subjects.Prefix() + "." + c.word(0), Header: nats.Header{}, Data: []byte(c.input)})
	return "", err
}
