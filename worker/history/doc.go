// Package history summarizes the ledger for viewers: which replies belong to an account or a tenant, the last
// replies, rates and latencies, and how pools filled. It reads the ledger only when a viewer looks. It needs
// little memory: it stores sequences instead of replies, sums instead of events, and a bit for each decision.
package history
