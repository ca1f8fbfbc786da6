// Package gardenertest is the conformance suite of packages gardener and policyconfig against a real Kubernetes
// API: the API server's own conflicts, watches and merge patches, with faults injected into requests and answers.
// Call Run once for each kind and each supported server.
package gardenertest
