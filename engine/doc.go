// Package engine holds the domain of hap-worker: bindings, pools, error codes
// and the identifiers that every other package speaks about. It has no I/O, no
// clock and no logging. The decisions themselves live in its sub-packages:
// rule (which pool), account (which binding of a pool), network (which
// network blocks), policy (which implementation of an interface).
package engine
