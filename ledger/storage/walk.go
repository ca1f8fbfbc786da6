package storage

import (
	"context"

	"github.com/hap-worker/hap-worker/events/streams"

	"github.com/hap-worker/hap-worker/events"
)

// Each visits all replies of the ledger in stream order, sealed ones included, until the leader has no
// more. A reply that is replaced meanwhile is visited in its new place, so none is missed. It skips a
// message that it cannot read and reports it to OnForeign. It returns the first error of visit.
func (l *Ledger) Each(ctx context.Context, visit func(events.Stored) error) error {
	return l.EachAfter(ctx, 0, visit)
}

// EachAfter is Each for the replies that were stored after a sequence of the ledger.
func (l *Ledger) EachAfter(ctx context.Context, sequence uint64, visit func(events.Stored) error) error {
	return l.streams.Walk(ctx, l.stream(), sequence, func(msg streams.Message) error {
		stored, err := l.storedReply(msg)
		if err != nil {
			return l.pass(err)
		}
		return visit(stored)
	})
}

// Facts is Each for a rebuild: it decodes only the fields of a Fact. It leaves out sealed replies and
// replies to releases, which say nothing about a runtime. An unreadable message comes as a Fact with
// Foreign alone.
func (l *Ledger) Facts(ctx context.Context, visit func(Fact) error) error {
	return l.FactsAfter(ctx, 0, func(fact Fact) error {
		if fact.Foreign == nil && fact.RuntimeID == "" {
			return nil
		}
		return visit(fact)
	})
}

// FactsAfter is Facts for the replies that were stored after a sequence of the ledger, except that it also visits
// replies to releases.
func (l *Ledger) FactsAfter(ctx context.Context, sequence uint64, visit func(Fact) error) error {
	return l.streams.Walk(ctx, l.stream(), sequence, l.facts(visit))
}

// facts returns a visitor that decodes the fact of each message.
func (l *Ledger) facts(visit func(Fact) error) func(streams.Message) error {
	var read factReader
	return func(msg streams.Message) error {
		fact, err := read.fact(msg.Data)
		if err != nil {
			found := events.NewForeign(l.stream(), msg, err)
			_ = l.pass(found)
			return visit(Fact{Foreign: found})
		}
		if fact.Status == events.StatusSealed {
			return nil
		}
		fact.Subject, fact.Position, fact.Time = msg.Subject, msg.Sequence, msg.Time
		return visit(fact)
	}
}

// Unsettled visits the events that are left in HAP_EVENTS, delivered or not, oldest first. It may leave
// out events that are published after it has found the first. It uses no consumer, since a work-queue
// stream allows only one. An event that does not decode comes with its error and the fields that could
// be read. It returns the first error of visit.
func (l *Ledger) Unsettled(ctx context.Context, visit func(e events.Event, sequence uint64, fault error) error) error {
	return streams.Each(ctx, l.streams, l.subjects.Stream(events.StreamEvents), 1, ">", func(msg streams.Message) error {
		event, fault := events.Decode(msg.Subject, msg.Header, msg.Data)
		return visit(event, msg.Sequence, fault)
	})
}
