package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/integration/bench/usage"
)

// sample is one round of one measurement.
type sample struct {
	Rate float64 `json:"perSecond"`
	// CPU seconds per 1,000 events: of the answering process, of Redis, and of this process, which contains
	// NATS, the publisher and, with --base, the Kubernetes API. Bare patches have only a rate.
	CPU      float64 `json:"cpu"`
	Redis    float64 `json:"redis"`
	NATS     float64 `json:"nats"`
	Resident int64   `json:"resident"` // bytes of the answering process
}

// all is the CPU of the answering process, of Redis and of this process.
func (s sample) all() float64 { return s.CPU + s.Redis + s.NATS }

// measure runs all rounds. Compared measurements alternate, so that other load of the machine affects both.
func (b *bench) measure(ctx context.Context) (*report, error) {
	r := newReport(ctx, b.settings)
	for b.round = range b.rounds {
		fmt.Fprintf(os.Stderr, "round %d of %d\n", b.round+1, b.rounds)
		if b.wants("steady") {
			if err := b.steadyRound(ctx, r); err != nil {
				return nil, err
			}
			if err := b.pacedRound(ctx, r); err != nil {
				return nil, err
			}
		}
		if b.wants("claims") {
			if err := b.claimRound(ctx, r); err != nil {
				return nil, err
			}
		}
	}
	return r, nil
}

func (b *bench) steadyRound(ctx context.Context, r *report) error {
	ctx, cancel := context.WithTimeout(ctx, roundLimit)
	defer cancel()
	provisions, err := b.steadyEvents()
	if err != nil {
		return err
	}
	bare, tuned, deprovisions := slices.Clone(provisions), slices.Clone(provisions), make([]event, b.events)
	for i := range b.events {
		runtime := b.runtime(i)
		bare[i].subject, tuned[i].subject = bareAnchor.subject(runtime), tunedAnchor.subject(runtime)
		if deprovisions[i], err = b.publish.deprovision(runtime, tenant(i)); err != nil {
			return err
		}
	}
	for _, m := range []struct {
		name string
		of   func() (sample, error)
	}{
		{nameBare, func() (sample, error) { return b.ofLoop(ctx, bareAnchor, bare) }},
		{nameSteady, func() (sample, error) { return b.ofWorker(ctx, provisions) }},
		{nameTuned, func() (sample, error) { return b.ofLoop(ctx, tunedAnchor, tuned) }},
		{nameDeprovision, func() (sample, error) { return b.ofWorker(ctx, deprovisions) }},
	} {
		s, err := m.of()
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		r.add(m.name, s)
	}
	return nil
}

// runtime and tenant are the names in the i-th event of a round.
func (b *bench) runtime(i int) string { return fmt.Sprintf("r-%d-%d", b.round, i) }
func tenant(i int) string             { return fmt.Sprintf("ga-%d", i%tenants) }

// steadyEvents returns the provisions of a round, by tenants that have an account.
func (b *bench) steadyEvents() ([]event, error) {
	batch := make([]event, b.events)
	for i := range batch {
		var err error
		if batch[i], err = b.publish.provision(b.runtime(i), tenant(i)); err != nil {
			return nil, err
		}
	}
	return batch, nil
}

// ofWorker and ofLoop measure a batch that the worker, or the loop of an anchor, answers.
func (b *bench) ofWorker(ctx context.Context, batch []event) (sample, error) {
	return b.answering(ctx, b.worker.PID(), events.StreamReplies, batch)
}

func (b *bench) ofLoop(ctx context.Context, a anchor, batch []event) (sample, error) {
	return b.answering(ctx, b.loopPID(a), a.replies(), batch)
}

func (b *bench) answering(ctx context.Context, pid int, replies string, batch []event) (sample, error) {
	return b.timed(ctx, pid, func() (time.Duration, int, error) {
		took, err := b.publish.answered(ctx, replies, batch)
		return took, len(batch), err
	})
}

// timed measures one round of a process.
func (b *bench) timed(ctx context.Context, pid int, do func() (time.Duration, int, error)) (sample, error) {
	before, err := b.usage(ctx, pid)
	if err != nil {
		return sample{}, err
	}
	took, n, err := do()
	if err != nil {
		return sample{}, err
	}
	after, err := b.usage(ctx, pid)
	if err != nil {
		return sample{}, err
	}
	per := func(i int) float64 { return (after[i] - before[i]).Seconds() / float64(n) * 1000 }
	memory, err := usage.Resident(pid)
	return sample{Rate: float64(n) / took.Seconds(), CPU: per(0), Redis: per(1), NATS: per(2), Resident: memory}, err
}

// usage returns the CPU time of processes, of Redis, and of this process, which contains NATS, the publisher and, with
// stack.LightGardener, the Kubernetes API.
func (b *bench) usage(ctx context.Context, pids ...int) (used [3]time.Duration, err error) {
	for _, pid := range pids {
		one, err := usage.CPU(pid)
		if err != nil {
			return used, err
		}
		used[0] += one
	}
	used[1], err = b.redisCPU(ctx)
	used[2] = usage.OwnCPU()
	return used, err
}

func (b *bench) redis() (*redis.Client, error) {
	o, err := redis.ParseURL(b.stack.Redis.URL())
	if err != nil {
		return nil, err
	}
	return redis.NewClient(o), nil
}

func (b *bench) redisCPU(ctx context.Context) (time.Duration, error) {
	client, err := b.redis()
	if err != nil {
		return 0, err
	}
	defer func() { _ = client.Close() }()
	info := client.InfoMap(ctx, "cpu")
	if info.Err() != nil {
		return 0, info.Err()
	}
	var user, system float64
	_, errUser := fmt.Sscan(info.Item("CPU", "used_cpu_user"), &user)
	_, errSystem := fmt.Sscan(info.Item("CPU", "used_cpu_sys"), &system)
	return time.Duration((user + system) * float64(time.Second)), errors.Join(errUser, errSystem)
}

// pacedRound measures latency at half of the worker's rate in this round: of the worker, and of the bare loop
// at the same rate, which shows the share of the machine.
func (b *bench) pacedRound(ctx context.Context, r *report) error {
	ctx, cancel := context.WithTimeout(ctx, roundLimit)
	defer cancel()
	rate := r.Samples[nameSteady][b.round].Rate / 2
	batch := make([]event, min(b.events, int(rate*pacedSeconds)))
	before, err := histograms(ctx, b.worker.URL()) // the worker does nothing in the bare loop's turn
	if err != nil {
		return err
	}
	for _, m := range []struct{ name, replies string }{
		{nameBare, bareAnchor.reply(">")},
		{nameSteady, b.publish.subjects.Replies()},
	} {
		for i := range batch {
			id := fmt.Sprintf("paced-%d-%d", b.round, i)
			e, err := b.publish.provision(id, tenant(i))
			if err != nil {
				return err
			}
			if m.name == nameBare {
				e.subject, e.reply = bareAnchor.subject(id), bareAnchor.reply(id)
			}
			batch[i] = e
		}
		runtime.GC() // so that garbage of earlier rounds is not collected in this one
		took, err := b.publish.paced(ctx, m.replies, batch, rate)
		if err != nil {
			return fmt.Errorf("%s, paced: %w", m.name, err)
		}
		slices.Sort(took)
		n := len(took)
		r.Paced[m.name] = append(r.Paced[m.name], latency{
			Rate: rate, P50: milliseconds(took[n/2]), P99: milliseconds(took[n*99/100]), Max: milliseconds(took[n-1]),
		})
	}
	after, err := histograms(ctx, b.worker.URL())
	if err != nil {
		return err
	}
	r.Phases = append(r.Phases, since(before, after))
	return nil
}

// pacedSeconds is for how long at most the worker, or the loop, gets events in a paced round.
const pacedSeconds = 4

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
