// Package history summarizes the ledger for viewers: which replies belong to an account or a tenant, the last
// replies, rates and latencies, and how pools filled. It reads the ledger only while a viewer looks. Its
// memory is bounded: it stores sequences instead of replies, and sums instead of events.
package history
