package account

import (
	"fmt"
	"slices"
	"strings"
)

// fenced begins the epochs of rule 15: a record outside of Redis says whether they are in
// force. No other epoch begins like this.
const fenced = "fenced-"

// FencedEpoch returns an epoch that the record has to name before anything is done by its
// decisions.
func FencedEpoch(id string) string { return fenced + id }

// Fenced reports whether an epoch is of rule 15.
func Fenced(epoch string) bool { return strings.HasPrefix(epoch, fenced) }

// Epochs are the epochs of places, by name: pools, buckets of the directory, and the network ranges.
type Epochs map[string]string

// RangesPlace is the place of the network ranges. No pool has a colon in its name.
const RangesPlace = "net:"

// ErrNotInForce says that the record names another epoch than the one that a place has on
// this server of Redis: another server is the master by now, or was (rule 15). It is an
// ErrNotBuilt.
var ErrNotInForce = fmt.Errorf("another epoch is in force: %w", ErrNotBuilt)

// contained are the operations that change Redis alone: what they return permits nothing
// outside of it, so that they need no epoch in force (rule 15).
var contained = []string{
	"confirm", "revoke", "mark freed", "take back", "observe", "forget", "forget place",
	"recount", "restore", "drop adopted", "doubt", "drain idle", "raise", "pause", "status", "queue",
	"set parents", "foreign ranges", "restore ranges", "room of ranges",
}

// Contained reports whether an operation, by the name of its script, changes Redis alone.
func Contained(operation string) bool { return slices.Contains(contained, operation) }
