// Package network allots disjoint IPv4 ranges to clusters. It reads the
// IPAMConfig (Parse), says which rules match a cluster (Config.Match), and holds
// in plain Go what the scripts in Redis decide (Space): which block each
// injection of a rule gets, what is repeated, what is given back.
// docs/network.md describes it for its users.
//
// A Config is immutable and safe for concurrent use; a Space is not.
package network
