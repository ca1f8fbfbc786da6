// Package kube has the parts that package gardener and the packages below it share: informers, and
// watches of whole objects.
package kube

const (
	// FieldManager is the name under which objects are written.
	FieldManager = "hap-worker"
	// PageSize is the maximum number of objects in a page of a list.
	PageSize = 500
	// PageTimeouts is the time-out of a page of a list, as a multiple of the time-out of one object.
	PageTimeouts = 10
)
