package account

import (
	"fmt"
	"slices"
	"strings"
)

// fenced is the prefix of the epochs of rule 15: a record outside of Redis says which of them are in force.
// No other epoch has this prefix.
const fenced = "fenced-"

// FencedEpoch returns an epoch whose decisions have no effect outside of Redis before the record names it.
func FencedEpoch(id string) string { return fenced + id }

// Fenced reports whether FencedEpoch returned the epoch.
func Fenced(epoch string) bool { return strings.HasPrefix(epoch, fenced) }

// Epochs are the epochs of places, by name: pools, buckets of the directory, and the network ranges.
type Epochs map[string]string

// EpochCheck returns nil if decisions under these epochs may have effects outside of Redis (rule 15),
// otherwise an error. It compares the epochs with the record as it was read before the check was returned;
// it does not read the record again.
type EpochCheck func(Epochs) error

// RangesPlace is the name of the network ranges in Epochs. No pool has a colon in its name.
const RangesPlace = "net:"

// ForgottenPlace is a name in the record of the epochs in force. It says that the record has forgotten pools (rule
// 15).
const ForgottenPlace = "forgotten:"

// ErrNotInForce means that the record does not name the epoch that a place has on this Redis server, for example
// since another server is the master by now (rule 15). It wraps ErrNotBuilt.
var ErrNotInForce = fmt.Errorf("another epoch is in force: %w", ErrNotBuilt)

// contained lists the operations that need no epoch in force (rule 15): they only read or change Redis, and their
// results permit nothing outside of it.
var contained = []string{
	"confirm", "revoke", "mark freed", "take back", "observe", "forget", "forget place",
	"recount", "restore", "release unchanged", "drop adopted", "doubt", "drain idle", "raise", "pause", "status", "queue",
	"set parents", "foreign ranges", "restore ranges", "room of ranges",
}

// Contained reports whether an operation, by the name of its script, needs no epoch in force (rule 15).
func Contained(operation string) bool { return slices.Contains(contained, operation) }
