// Package contract holds what publishers, workers and operators share: error codes, errors that have one, the form
// of ids, and how names are written in subjects. It imports only the standard library.
package contract
