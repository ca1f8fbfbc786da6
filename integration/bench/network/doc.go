// Package network holds the slicing of network ranges against go-ipam, the
// library that Gardener-IPAM uses, in memory and in the same run.
package network
