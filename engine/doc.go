// Package engine holds the domain of hap-worker: bindings, pools, and the error
// codes and identifiers of package contract, under the same names. It has no I/O,
// no clock and no logging. The decisions themselves live in its sub-packages:
// rule (which pool), account (which binding of a pool), network (which
// network blocks), policy (which implementation of an interface).
package engine
