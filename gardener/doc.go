// Package gardener is the worker's view of Gardener: the bindings of one
// namespace, of one of three kinds, and the Shoots that refer to them.
//
// A Client keeps all bindings in memory, fed by one watch.
// Claimable, Shared, Barred, Owned, Cached, Pools and All answer from memory and
// may be some milliseconds behind; what they answer is a suggestion. Get, List,
// Shoots and Refers ask the API server. Claim, MarkDirty and Free write
// with the resourceVersion of the binding they are given, so a write that is
// built on something stale fails with engine.ErrConflict and changes nothing.
//
// The cache is fed by the watch only. The result of a write is not put into it:
// the watch may already have delivered something newer, even the binding's
// deletion, and the writer has the result in hand.
//
// Contents of Secrets are never asked for, only their metadata. Bindings that refer to one are
// listed and watched whole; that and the worker's own labels and annotations are kept.
package gardener
