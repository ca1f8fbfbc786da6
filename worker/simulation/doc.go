// Package simulation runs the production code of worker, rebuild, reconcile, ranges, audit and
// retention against a world in memory, and injects faults.
//
// A history is a plan of requests and faults and an order of steps, both drawn from one
// seed. Everything runs in a bubble of testing/synctest. The calls of ports stop at a gate,
// except some reads. The scheduler waits until every goroutine is blocked, draws one call,
// executes its effect on the world and lets its caller go on, now or later, with the answer
// or without it. The invariants of docs/protocol.md are checked whenever a reply is stored, a
// label changes or Redis changes. After the faults have ended, the history plays on until
// nothing changes, and the stores are compared. docs/testing-simulation.md says how to run,
// read and extend the simulation.
package simulation
