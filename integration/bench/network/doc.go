// Package network compares the allotment of network ranges in memory with go-ipam, the library of Gardener-IPAM,
// in the same run, and measures the allotment in Redis.
package network
