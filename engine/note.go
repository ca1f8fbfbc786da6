package engine

import "time"

// Note is something that happened to an account, told where the account is: as an Event of
// Kubernetes about its binding.
type Note struct {
	// Name tells notes apart: one with the same name is the same note, from any worker.
	Name    string
	Binding string
	Reason  NoteReason
	Message string
	Count   int // how often it happened
	First   time.Time
	Last    time.Time
	// Written says that it was written before, with a lower count.
	Written bool
}

// NoteReason is the word of a note, in the form of Kubernetes' reasons.
type NoteReason string

// The reasons of notes.
const (
	NoteClaimed        NoteReason = "Claimed"
	NoteClaimRefused   NoteReason = "ClaimRefused" // Gardener allows no change of it
	NoteClaimRevoked   NoteReason = "ClaimRevoked" // another tenant's, dirty or being deleted by then
	NoteDirty          NoteReason = "Dirty"
	NoteReleased       NoteReason = "Released"
	NoteReleaseRefused NoteReason = "ReleaseRefused"
	NoteCordoned       NoteReason = "Cordoned"
	NoteUncordoned     NoteReason = "Uncordoned"
)

// Warns reports whether an operator should look.
func (r NoteReason) Warns() bool {
	return r == NoteClaimRefused || r == NoteClaimRevoked || r == NoteReleaseRefused
}
