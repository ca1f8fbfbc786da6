// Package page is the operations page of a worker: how full the pools are, which requests wait, the last
// decisions with their reasons, and a playground for rules. It is rendered on the server and works without
// JavaScript; with it, the page updates itself.
//
// The page only reads. It reads pools and queues at most once a second for all viewers together, and not at all
// without viewers; only Watch checks the dependencies all the time. docs/operations.md is its guide.
package page
