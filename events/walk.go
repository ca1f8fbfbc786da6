package events

import (
	"context"
	"time"

	"github.com/hap-worker/hap-worker/events/streams"
)

// Each reads the ledger from its beginning to its end, in the order of the stream,
// sealed ones included. The end is where the leader has nothing more when Each asks
// it: a reply that is replaced meanwhile is seen in its new place, none is missed.
// What cannot be read is passed over, and told to OnForeign. It ends with the first
// error of visit.
func (l *Ledger) Each(ctx context.Context, visit func(Stored) error) error {
	return l.streams.Walk(ctx, l.stream(), 0, func(msg streams.Message) error {
		stored, err := l.storedReply(msg)
		if err != nil {
			return l.pass(err)
		}
		return visit(stored)
	})
}

// Facts is Each for who rebuilds: it reads of every reply only what a Fact has, and
// leaves out those to releases and the sealed ones, which say nothing of a runtime.
// What cannot be read comes as Fact.Foreign, with nothing else.
func (l *Ledger) Facts(ctx context.Context, visit func(Fact) error) error {
	return l.FactsAfter(ctx, 0, func(fact Fact) error {
		if fact.Foreign == nil && fact.RuntimeID == "" {
			return nil
		}
		return visit(fact)
	})
}

// FactsAfter visits what was stored after a sequence of the ledger, with the replies to
// releases; otherwise it is like Facts.
func (l *Ledger) FactsAfter(ctx context.Context, sequence uint64, visit func(Fact) error) error {
	var read factReader
	return l.streams.Walk(ctx, l.stream(), sequence, func(msg streams.Message) error {
		fact, err := read.fact(msg.Data)
		if err != nil {
			found := NewForeign(l.stream(), msg, err)
			_ = l.pass(found)
			return visit(Fact{Foreign: found})
		}
		if fact.Status == StatusSealed {
			return nil
		}
		fact.Subject, fact.Position, fact.Time = msg.Subject, msg.Sequence, msg.Time
		return visit(fact)
	})
}

// FactsSince is FactsAfter for what was stored since a time: what it costs does not grow with
// what is older.
func (l *Ledger) FactsSince(ctx context.Context, since time.Time, visit func(Fact) error) error {
	state, err := l.streams.State(ctx, l.stream())
	if err != nil || state.LastSeq == 0 {
		return err
	}
	first, err := streams.FirstSince(ctx, l.streams, l.stream(), since, max(state.FirstSeq, 1), state.LastSeq)
	if err != nil {
		return err
	}
	return l.FactsAfter(ctx, first-1, visit)
}

// Unsettled visits what is left in HAP_EVENTS, delivered or not, oldest first, but
// nothing that is published after it has found the first. It needs no consumer; a
// work-queue stream allows no second one. An event that does not decode comes with its
// error and with what could be read of it. It ends with the first error of visit.
func (l *Ledger) Unsettled(ctx context.Context, visit func(e Event, sequence uint64, fault error) error) error {
	return streams.Each(ctx, l.streams, l.subjects.Stream(StreamEvents), 1, ">", func(msg streams.Message) error {
		event, fault := Decode(msg.Subject, msg.Header, msg.Data)
		return visit(event, msg.Sequence, fault)
	})
}
