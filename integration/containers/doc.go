// Package containers runs hap-worker, and everything around it, each in a
// separate container on private networks: NATS as a cluster of three servers,
// Redis alone and as a cluster, the Kubernetes API, and two workers. There the
// tests stop servers, cut connections and restart workers under a load, and hold
// what is left to the invariants.
//
// The parts are started once and shared. What tells landscapes apart is a NATS
// account, a namespace and a prefix in Redis of their own; so tests that hurt only
// their own workers run side by side. docs/testing-containers.md says more.
package containers
