// Package network compares the allotment of network ranges with go-ipam, the library of Gardener-IPAM, in
// memory and in the same run.
package network
