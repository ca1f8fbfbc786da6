// Package page is the operations page of a worker: how full the pools are, who
// waits, what was decided last and why, and a place to try rules out. It is
// rendered on the server, works without JavaScript, and updates itself with it.
//
// The page only reads. What it shows is read at most once a second for all
// viewers, and not at all while there are none. docs/operations.md is its guide.
package page
