// Package history follows the ledger for those who look at the past: which replies are about
// an account or a tenant, what was answered last, how fast, and how pools filled. It reads
// only while a viewer looks, and keeps a bounded part in memory: places of replies rather
// than the replies, and sums rather than events.
package history
