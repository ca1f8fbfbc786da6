// Package gardener is the worker's view of Gardener: the bindings of one namespace, of one of three
// kinds, and the Shoots that refer to them.
//
// A Client keeps all bindings in memory, fed by one watch. Claimable, Shared, Barred, Owned, Cached,
// Pools and All answer from memory and may be behind, by milliseconds while the watch works; their results
// are suggestions. Get, List, Shoots and Refers ask the API server. Claim, MarkDirty, Unclaim and Free write
// with the resourceVersion of the given binding, so a write based on a stale binding fails with
// engine.ErrConflict and changes nothing. A request that the API rejects as invalid fails with
// engine.CodeInternal, also where the comment of a method does not list it.
//
// Only the watch feeds the cache. The result of a write is not put into it: the watch may already have
// delivered a newer state, or the deletion, and the writer has the result.
//
// The Client never requests the contents of Secrets, only their metadata. It lists and watches whole
// bindings, and keeps their reference and the labels and annotations that the worker uses.
package gardener
