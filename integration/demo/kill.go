package main

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/hap-worker/hap-worker/events"
)

// The size of the race, and the number of answers after which a worker is killed.
const (
	raceTenants    = 4
	racePerTenant  = 125
	answeredBefore = 50
)

// workerKilled asks for many clusters at once, kills a worker with SIGKILL meanwhile, and checks that the
// same requests again get the same answers.
func (d *demo) workerKilled() error {
	race := &race{all: map[string]events.Reply{}, underWay: make(chan struct{})}
	killed := make(chan error, 1)
	begin := time.Now()
	go func() {
		select {
		case <-race.underWay:
			d.stack.Workers[0].Kill()
			killed <- nil
		case <-d.ctx.Done():
			killed <- d.ctx.Err()
		}
	}()
	if err := d.askAll(race.answer); err != nil {
		return err
	}
	if err := <-killed; err != nil {
		return err
	}
	took := time.Since(begin)
	fmt.Fprintf(d.out, "  %d clusters of %d tenants are asked for at once. After %d answers worker 1 is killed (SIGKILL).\n",
		raceTenants*racePerTenant, raceTenants, answeredBefore)
	fmt.Fprintf(d.out, "  Worker 2 gets its events after %s without a sign of life, and answers the rest: %d answers in %.1f s.\n",
		ackWait, len(race.answers()), took.Seconds())
	again := &again{first: race.answers()}
	if err := d.askAll(again.answer); err != nil {
		return err
	}
	fmt.Fprintf(d.out, "  The same requests once more, to worker 2: %d of %d answers are the same. The accounts:\n\n", again.same, len(again.first))
	if again.same != len(again.first) {
		return fmt.Errorf("%d answers differ", len(again.first)-again.same)
	}
	if err := d.stack.Workers[0].Start(d.ctx); err != nil {
		return err
	}
	race.print(d)
	fmt.Fprintln(d.out)
	return d.hapctl("counters", "verify")
}

// askAll provisions all clusters of the race, and passes each answer to take.
func (d *demo) askAll(take func(events.Reply)) error {
	ctx, cancel := context.WithTimeout(d.ctx, oneAnswer)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	for n := range raceTenants * racePerTenant {
		group.Go(func() error {
			w := wish{fmt.Sprintf("rt-race-%d", n+1), fmt.Sprintf("ga-race-%d", n%raceTenants+1), "gcp", "cf-eu30", "europe-west3", ""}
			r, err := d.client.Provision(ctx, "req-"+w.runtime, w.request())
			if err == nil {
				take(r)
			}
			return err
		})
	}
	return group.Wait()
}

// race collects the answers to the first round of requests.
type race struct {
	mu       sync.Mutex
	all      map[string]events.Reply // by request
	underWay chan struct{}           // closed after answeredBefore answers
}

func (r *race) answer(reply events.Reply) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all[reply.RequestID] = reply
	if len(r.all) == answeredBefore {
		close(r.underWay)
	}
}

func (r *race) answers() map[string]events.Reply {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all
}

// print prints a line for each account of the race.
func (r *race) print(d *demo) {
	type account struct{ tenant, name string }
	clusters := map[account]int{}
	for _, reply := range r.answers() {
		clusters[account{reply.GlobalAccountID, reply.Binding.Name}]++
	}
	var lines []string
	for a, n := range clusters {
		lines = append(lines, fmt.Sprintf("  %s  %s  %d clusters\n", a.tenant, a.name, n))
	}
	slices.Sort(lines)
	fmt.Fprint(d.out, strings.Join(lines, ""))
}

// again compares answers with the first ones.
type again struct {
	mu    sync.Mutex
	first map[string]events.Reply
	same  int
}

func (a *again) answer(reply events.Reply) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if reflect.DeepEqual(a.first[reply.RequestID], reply) {
		a.same++
	}
}

// why shows the record of the cluster that waited.
func (d *demo) why() error { return d.hapctl("explain", "rt-sa-7") }
