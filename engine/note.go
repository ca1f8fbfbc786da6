package engine

import "time"

// Note is an occurrence about an account. It is published as a Kubernetes Event about the account's binding.
type Note struct {
	// Name is the name of the Event. For a change that the watch shows, all workers use the same name.
	Name    string
	Binding string
	Reason  NoteReason
	Message string
	Count   int // how often it happened
	First   time.Time
	Last    time.Time
	// Written says that a write of the note was tried before, with a lower count.
	Written bool
}

// NoteReason is the reason of the Kubernetes Event.
type NoteReason string

// The reasons of notes.
const (
	NoteClaimed        NoteReason = "Claimed"
	NoteClaimRefused   NoteReason = "ClaimRefused" // Gardener refused the change
	NoteClaimRevoked   NoteReason = "ClaimRevoked" // the binding was another tenant's, dirty, internal, held back or in another pool by then
	NoteDirty          NoteReason = "Dirty"
	NoteReleased       NoteReason = "Released"
	NoteReleaseRefused NoteReason = "ReleaseRefused"
	NoteCordoned       NoteReason = "Cordoned"
	NoteUncordoned     NoteReason = "Uncordoned"
)

// Warns reports whether an operator should look at a note with this reason.
func (r NoteReason) Warns() bool {
	return r == NoteClaimRefused || r == NoteClaimRevoked || r == NoteReleaseRefused
}
