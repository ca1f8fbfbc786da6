// Package gardenertest holds what package gardener promises, as tests against a
// real Kubernetes API: the API server's own conflicts, watches and merge patches,
// with faults injected on the way to it and back. Run is called once for each
// kind and each server that is to be supported.
package gardenertest
