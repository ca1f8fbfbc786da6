// Package memory implements the dependencies of a worker in memory: streams, counters, network blocks and
// bindings that behave like NATS, Redis and Gardener, as far as the worker relies on them. Suites that also
// run on the real parts check this: ledgertest.RunStreams, the scenarios of accounttest with
// accounttest.Read, networktest.Rebuilds and Histories, and suggesttest.Run.
//
// No call fails for a fault of a server or of the network. To inject such faults, wrap the interfaces that
// the worker uses: streams.Streams, streams.Consumer, worker.Counters.
//
// It uses package time, so that a bubble of testing/synctest controls it. It starts no goroutine except a
// timer's, while a caller waits.
package memory
