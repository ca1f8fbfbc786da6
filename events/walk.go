package events

import (
	"context"

	"github.com/hap-worker/hap-worker/events/streams"
)

// Each reads the ledger from its beginning to its end, in the order of the stream,
// sealed ones included. The end is where the leader has nothing more when Each asks
// it: a reply that is replaced meanwhile is seen in its new place, none is missed.
// What cannot be read is passed over, and told to OnForeign. It ends with the first
// error of visit.
func (l *Ledger) Each(ctx context.Context, visit func(Stored) error) error {
	return l.streams.Walk(ctx, l.stream(), func(msg streams.Message) error {
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
	var read factReader
	return l.streams.Walk(ctx, l.stream(), func(msg streams.Message) error {
		fact, err := read.fact(msg.Data)
		if err != nil {
			found := foreign(l.stream(), msg, err)
			_ = l.pass(found)
			return visit(Fact{Foreign: found})
		}
		if fact.RuntimeID == "" || fact.Status == StatusSealed {
			return nil
		}
		fact.Time = msg.Time
		return visit(fact)
	})
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
