// Package contract holds the words that publishers, workers and operators share: error codes, errors that have one,
// what a request may be called, and how names are written in subjects. It imports only the standard library.
package contract
