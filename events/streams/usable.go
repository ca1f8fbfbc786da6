package streams

import (
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// unusable returns why workers cannot use an existing stream: the server would refuse or silently lose
// messages, or a worker would take messages of other applications. It returns nil if the stream differs from
// want only in other ways, or not at all.
func unusable(want *jetstream.StreamConfig, info *jetstream.StreamInfo) error {
	have := &info.Config
	kept := want.MaxAge == 0 // requests and answers, not dead letters
	faults := subjectFaults(want, have)
	faults = append(faults, retentionFaults(want, have, kept)...)
	faults = append(faults, lossFaults(want, have, kept)...)
	return existingStream(info).refuse(append(faults, writeFaults(want, have, kept)...))
}

// consumed reports whether want defines the stream of events: a bounded queue that a consumer empties.
func consumed(want *jetstream.StreamConfig) bool {
	return want.Retention == jetstream.WorkQueuePolicy && want.MaxBytes > 0
}

func subjectFaults(want, have *jetstream.StreamConfig) []fault {
	if have.Mirror != nil {
		return []fault{{true, "it is a mirror of " + OneLine(have.Mirror.Name, mostText) + ": nothing can be stored there", ""}}
	}
	parts := strings.Split(want.Subjects[0], ".")
	prefix := strings.Join(parts[:len(parts)-2], ".") // without the kind and what follows
	others := uncovered(have.Subjects, []string{prefix + ".>"})
	// If only some subjects are missing, an older version created the stream: that is a difference, no
	// fault. If all are missing, the stream gets no message.
	none := len(uncovered(want.Subjects, have.Subjects)) == len(want.Subjects)
	return []fault{
		{none, "subjects is " + listed(have.Subjects) + ", must be " + listed(want.Subjects), ""},
		{!none && consumed(want) && len(others) > 0, "subjects has " + listed(others) + ", must have none but " + listed(want.Subjects) + ": a worker would take these messages from the application that they are for", ""},
		{have.SubjectTransform != nil, "it stores messages under other subjects (subject transform)", "--no-transform"},
	}
}

func retentionFaults(want, have *jetstream.StreamConfig, kept bool) []fault {
	is := fmt.Sprintf("retention is %s, must be %s: ", have.Retention, want.Retention)
	return []fault{
		{have.Retention == jetstream.InterestPolicy, is + "what is stored while it has no consumer is lost", ""},
		{consumed(want) && have.Retention == jetstream.LimitsPolicy, is + "settled events stay, until it is full", ""},
		{want.MaxMsgsPerSubject == 1 && have.Retention == jetstream.WorkQueuePolicy, is + "it cannot be read from the beginning", ""},
		{kept && have.Storage == jetstream.MemoryStorage, "storage is Memory, must be File: it is lost when NATS stops", ""},
	}
}

func lossFaults(want, have *jetstream.StreamConfig, kept bool) []fault {
	limited := have.MaxBytes > 0 || have.MaxMsgs > 0
	return []fault{
		{kept && have.MaxAge > 0, fmt.Sprintf("max age is %s, must be 0s: older ones are lost", have.MaxAge), "--max-age=0s"},
		{kept && limited && have.Discard == jetstream.DiscardOld, fmt.Sprintf(
			"discard is %s with max bytes %d and max messages %d, must be %s: the oldest ones are lost when it is full",
			have.Discard, have.MaxBytes, have.MaxMsgs, jetstream.DiscardNew), "--discard=new"},
		{consumed(want) && have.MaxMsgsPerSubject > 0 && !have.DiscardNewPerSubject, fmt.Sprintf(
			"max messages per subject is %d, must be -1: a tenant's next event deletes the one before", have.MaxMsgsPerSubject), "--max-msgs-per-subject=-1"},
	}
}

func writeFaults(want, have *jetstream.StreamConfig, kept bool) []fault {
	room := want.Retention == jetstream.WorkQueuePolicy && !consumed(want)
	return []fault{
		{have.Sealed, "it is sealed: nothing can be stored there", ""},
		{have.NoAck, "acknowledgement off is true, must be false: no publisher learns that its message is stored", "--ack"},
		{room && have.DenyPurge && !have.Sealed, "purge denied is true, must be false: what was answered would wait for ever", ""},
		{kept && want.MaxMsgsPerSubject == 1 && have.DiscardNewPerSubject, "discard new per subject is true, must be false: no answer takes the place of a waiting one", "--no-discard-per-subject"},
		{have.AllowMsgCounter, "it is a counter: it refuses messages that are no numbers", ""},
	}
}
