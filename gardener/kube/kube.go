// Package kube has what package gardener and those below it share of an API of Kubernetes:
// informers, and watches of whole objects.
package kube

const (
	// FieldManager is under which name objects are written.
	FieldManager = "hap-worker"
	// PageSize is how many objects a page of a list has at most.
	PageSize = 500
	// PageTimeouts is how many times as long a page of a list may take as one object.
	PageTimeouts = 10
)
