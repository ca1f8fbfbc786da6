package faults

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/integration/checker"
	"github.com/hap-worker/hap-worker/ledger/dead"
)

// watchLabels records tenant, dirty and generation of every binding at each change, from a watch on the Kubernetes API
// without the proxy. A gap in the watch is a failure of the run.
func (b *broker) watchLabels() {
	version := "0"
	for b.ctx.Err() == nil {
		w, err := b.kube.Resource(b.accounts.resource).Namespace(b.namespace).Watch(b.ctx, metav1.ListOptions{
			ResourceVersion: version, AllowWatchBookmarks: true,
		})
		if err != nil {
			pause(b.ctx, 100*time.Millisecond)
			continue
		}
		for event := range w.ResultChan() {
			o, ok := event.Object.(*unstructured.Unstructured)
			if !ok || event.Type == watch.Error {
				b.failed(fmt.Sprintf("the watch of the labels has a gap: %+v", event.Object))
				return
			}
			version = o.GetResourceVersion()
			if event.Type == watch.Added || event.Type == watch.Modified {
				b.labelled(o)
			}
		}
	}
}

func (b *broker) labelled(o *unstructured.Unstructured) {
	generation, _ := strconv.ParseInt(o.GetAnnotations()["hap-worker/generation"], 10, 64)
	label := checker.Label{
		At: time.Now(), Tenant: o.GetLabels()["tenantName"], Dirty: o.GetLabels()["dirty"] == "true", Generation: generation,
	}
	b.mu.Lock()
	labels := b.labels[o.GetName()]
	if n := len(labels); n > 0 {
		last := labels[n-1]
		last.At = label.At
		if last == label {
			b.mu.Unlock()
			return // nothing that is recorded has changed
		}
	}
	b.labels[o.GetName()] = append(labels, label)
	b.mu.Unlock()
	if label.Dirty {
		b.clean(o.GetName(), generation)
	}
}

// followReplies records every stored reply, and lets the broker act on it.
func (b *broker) followReplies() {
	last := uint64(0)
	for b.ctx.Err() == nil {
		// A killed server does not answer, and the run's context alone would wait too long.
		creating, cancel := context.WithTimeout(b.ctx, 5*time.Second)
		consumer, err := b.js.OrderedConsumer(creating, events.StreamReplies, jetstream.OrderedConsumerConfig{
			DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: last + 1,
			// The default is unlimited, always with the same consumer name: while a server of the NATS
			// cluster is down, that name may be unavailable and another one available.
			MaxResetAttempts: 1,
		})
		cancel()
		if err != nil {
			pause(b.ctx, 200*time.Millisecond)
			continue
		}
		messages, err := consumer.Messages()
		if err != nil {
			pause(b.ctx, 200*time.Millisecond)
			continue
		}
		last = b.followUntil(messages, last)
		messages.Stop()
	}
}

// followUntil reads until the iterator fails or is silent for 3 s, and returns the last sequence that it saw.
func (b *broker) followUntil(messages jetstream.MessagesContext, last uint64) uint64 {
	for b.ctx.Err() == nil {
		msg, err := messages.Next(jetstream.NextMaxWait(3 * time.Second))
		if err != nil {
			return last
		}
		meta, err := msg.Metadata()
		if err != nil || meta.Sequence.Stream <= last {
			continue
		}
		last = meta.Sequence.Stream
		r, err := events.DecodeReply(msg.Data())
		switch {
		case err != nil && strings.HasPrefix(msg.Subject(), b.subjects.Reply(junkRuntime, "")):
			continue
		case err != nil:
			b.failed(fmt.Sprintf("reply %d: %v", last, err))
			continue
		}
		b.replied(events.Stored{Reply: r, Subject: msg.Subject(), Sequence: last, Time: meta.Timestamp})
	}
	return last
}

func (b *broker) replied(s events.Stored) {
	b.mu.Lock()
	b.stored = append(b.stored, s)
	what := "reply " + string(s.Reply.Status)
	if s.Reply.Error != nil {
		what += " " + string(s.Reply.Error.Code)
	}
	b.counts[what]++
	if s.Reply.Final() && !b.since[s.Subject].IsZero() {
		b.took = append(b.took, s.Time.Sub(b.since[s.Subject]))
	}
	if rt := b.runtimes[s.Reply.RuntimeID]; rt != nil && rt.state == asked && s.Reply.Status == events.StatusRejected {
		rt.state = refused
	}
	b.mu.Unlock()
	if s.Reply.Status == events.StatusAssigned {
		b.createShoot(s.Reply.RuntimeID, s.Reply.Binding.Name)
	}
}

// remember records the events that have a dead letter, before the letters are purged.
func (b *broker) remember() error {
	found, err := b.dead()
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.Copy(b.buried, found)
	return err
}

// dead returns the sequences of the events that have a dead letter, or had one when remember was called.
func (b *broker) dead() (map[uint64]bool, error) {
	stream, err := b.js.Stream(b.ctx, events.StreamDead)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	found := maps.Clone(b.buried)
	b.mu.Unlock()
	for n := max(1, stream.CachedInfo().State.FirstSeq); n <= stream.CachedInfo().State.LastSeq; n++ {
		msg, err := stream.GetMsg(b.ctx, n)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		sequence, _ := strconv.ParseUint(msg.Header.Get(dead.HeaderSequence), 10, 64)
		found[sequence] = true
	}
	return found, nil
}

// left is the number of messages in a stream.
func (b *broker) left(stream string) (uint64, error) {
	s, err := b.js.Stream(b.ctx, stream)
	if err != nil {
		return 0, err
	}
	return s.CachedInfo().State.Msgs, nil
}

// underway counts the bindings that are still draining, being dirtied, or dirty.
func underway(f checker.Facts) int {
	n := 0
	for _, b := range f.Bindings {
		if s := f.Record(b).State; b.Dirty || s == account.Draining || s == account.Dirtying {
			n++
		}
	}
	return n
}
