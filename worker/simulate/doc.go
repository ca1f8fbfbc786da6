// Package simulate answers events on a copy of a landscape, without writing anywhere else: the code of the
// worker handles them, on stores of package memory. Events are handled one after the other; waiting requests
// are served in between.
//
// The clock stands still, so no deadline passes meanwhile. There are no Shoots: an account whose last cluster
// leaves is marked dirty at once. Writes of labels succeed at the first attempt.
package simulate
