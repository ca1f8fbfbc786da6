// Package simulation runs the production code of worker, rebuild, reconcile, ranges, audit and
// retention against a world in memory, and injects faults.
//
// A history is a plan of requests and faults and an order of steps, both drawn from one
// seed. Everything runs in a bubble of testing/synctest. The calls of ports stop at a gate,
// except some reads and signals. The scheduler waits until every goroutine is blocked and draws
// one call: usually the call takes effect, and its caller goes on, now or later, with the answer
// or without it. Each stored reply, each change of a label and each change in Redis is checked
// against the invariants of docs/protocol.md that it may violate. After the faults have ended,
// the history plays on until it comes to rest, and the stores are compared.
// docs/testing-simulation.md says how to run, read and extend the simulation.
package simulation
