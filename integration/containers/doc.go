// Package containers runs hap-worker and everything around it in containers on private networks: NATS as a
// cluster of three servers, Redis alone, as a cluster and with sentinels, the Kubernetes API, and two workers for each
// landscape. The tests stop servers, cut connections and restart workers under load, and then check the invariants.
// TestCompose tests docker-compose.yaml instead.
//
// NATS, the single Redis and the Kubernetes API are started once and shared. Each landscape has a separate NATS
// account, namespace and Redis prefix, so tests that disturb only their workers run in parallel.
// docs/testing-containers.md has the details.
package containers
