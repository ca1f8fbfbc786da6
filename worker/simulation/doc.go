// Package simulation runs the production code of worker, rebuild, reconcile, ranges and
// retention against a world in memory that fails at will.
//
// A history is a plan of requests and faults and an order of steps, both drawn from one
// seed. Everything runs in a bubble of testing/synctest. Each call of a port stops at a
// gate; the scheduler waits until every goroutine is blocked, draws one call, executes its
// effect on the world and lets its caller go on, now or later, with the answer or without
// it. After every effect the invariants of docs/protocol.md are checked, and after the
// faults have ended, that nothing is left undone. docs/testing-simulation.md says how to
// run, read and extend it.
package simulation
