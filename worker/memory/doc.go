// Package memory is the world of a worker in memory: streams, counters, network blocks
// and bindings that behave as NATS, Redis and Gardener do, as far as the worker relies
// on them. Suites that run on the real parts too hold it to that: eventstest.RunStreams,
// the scenarios of accounttest with accounttest.Read, networktest.Rebuilds and Histories,
// and suggesttest.Run.
//
// Nothing in it fails by itself. What is to fail is a decorator of the interface that
// the worker or package events declares: streams.Streams, jetstream.Consumer, worker.Counters.
//
// Time is that of package time, so that a bubble of testing/synctest rules it. No
// goroutine runs but those of the callers, and that of a timer while a caller waits.
package memory
