// Package page is the operations page of a worker: how full the pools are, which requests wait, the last
// decisions with their reasons, and a playground for rules. It is rendered on the server and works without
// JavaScript; with it, the page updates itself.
//
// The page only reads. It reads the landscape at most once a second for all viewers, and not at all without
// viewers. docs/operations.md is its guide.
package page
