package faults

import (
	"fmt"
	"time"

	"github.com/hap-worker/hap-worker/events"
)

// clean is the cleanup job of one dirty binding: after some time it releases the claim, again under a new request id
// each time, until the binding is clean.
func (b *broker) clean(binding string, generation int64) {
	claim := fmt.Sprintf("%s/%d", binding, generation)
	if _, at := b.cleaning.LoadOrStore(claim, true); at {
		return
	}
	b.busy.Go(func() {
		defer b.cleaning.Delete(claim)
		for n := 1; ; n++ {
			if !pause(b.ctx, b.between(300, 3000)) {
				return
			}
			e := release(fmt.Sprintf("clean-%s-%d-%d", binding, generation, n), binding, generation)
			b.count("release")
			if !b.deliver(e, "") {
				return
			}
			if b.dice(4) == 0 {
				b.repeatLater(e)
			}
			b.awaitCleaned(binding, generation)
			if b.ctx.Err() != nil || !b.stillDirty(binding, generation) {
				return
			}
		}
	})
}

func release(id, binding string, generation int64) events.Event {
	return events.Event{
		Type: events.TypeRelease, ID: id, Source: "/cleanup", Binding: binding,
		Release: &events.Release{Binding: binding, Generation: &generation},
	}
}

// repeatLater publishes a release again at a time when another tenant may have claimed the binding.
func (b *broker) repeatLater(e events.Event) {
	wait := b.between(1000, 15000)
	b.busy.Go(func() {
		if pause(b.ctx, wait) {
			b.count("release again")
			b.deliver(e, "again/"+e.ID)
		}
	})
}

// awaitCleaned waits until the binding is clean, or for 20 s at most.
func (b *broker) awaitCleaned(binding string, generation int64) {
	for begin := time.Now(); time.Since(begin) < 20*time.Second && b.stillDirty(binding, generation); {
		if !pause(b.ctx, 200*time.Millisecond) {
			return
		}
	}
}

func (b *broker) stillDirty(binding string, generation int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	labels := b.labels[binding]
	if len(labels) == 0 {
		return false
	}
	last := labels[len(labels)-1]
	return last.Dirty && last.Generation == generation
}

// staleRelease releases a binding that is in use, or an earlier claim of it.
func (b *broker) staleRelease() {
	b.mu.Lock()
	binding, generation := "", int64(0)
	for name, labels := range b.labels {
		if last := labels[len(labels)-1]; last.Generation > 0 && !last.Dirty {
			binding, generation = name, last.Generation-int64(b.random.IntN(2))
			break
		}
	}
	b.mu.Unlock()
	if binding == "" {
		return
	}
	b.count("release that must be refused")
	b.publish(release(fmt.Sprintf("stale-%s-%d", binding, b.dice(1<<30)), binding, generation), "")
}
