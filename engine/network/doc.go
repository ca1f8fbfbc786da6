// Package network allots disjoint IPv4 ranges to clusters. It reads the IPAMConfig (Parse), selects the rules
// for a cluster (Config.Match), and models the scripts in Redis in plain Go (Space): which block each
// injection of a rule gets, what a repeated request gets, and which blocks become free. docs/network.md
// describes it for users.
//
// A Config is immutable and safe for concurrent use; a Space is not.
package network
