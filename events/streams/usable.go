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
		{!none && consumed(want) && len(others) > 0, "subjects has " + listed(others) + ", must have none but " + listed(want.Subjects) + ": a worker would take and settle these messages of another application", ""},
		{have.SubjectTransform != nil, "it stores messages under other subjects (subject transform)", "--no-transform"},
	}
}

func retentionFaults(want, have *jetstream.StreamConfig, kept bool) []fault {
	is := fmt.Sprintf("retention is %s, must be %s: ", have.Retention, want.Retention)
	return []fault{
		{have.Retention == jetstream.InterestPolicy, is + "messages that are stored while the stream has no consumer are lost", ""},
		{consumed(want) && have.Retention == jetstream.LimitsPolicy, is + "events are not removed when they are settled, and the stream becomes full", ""},
		{want.MaxMsgsPerSubject == 1 && have.Retention == jetstream.WorkQueuePolicy, is + "a worker cannot read such a stream from the beginning", ""},
		{kept && have.Storage == jetstream.MemoryStorage, "storage is Memory, must be File: all messages are lost when NATS stops", ""},
	}
}

func lossFaults(want, have *jetstream.StreamConfig, kept bool) []fault {
	limited := have.MaxBytes > 0 || have.MaxMsgs > 0
	return []fault{
		{kept && have.MaxAge > 0, fmt.Sprintf("max age is %s, must be 0s: messages that are older are lost", have.MaxAge), "--max-age=0s"},
		{kept && limited && have.Discard == jetstream.DiscardOld, fmt.Sprintf(
			"discard is %s with max bytes %d and max messages %d, must be %s: the oldest messages are lost when the stream is full",
			have.Discard, have.MaxBytes, have.MaxMsgs, jetstream.DiscardNew), "--discard=new"},
		{consumed(want) && have.MaxMsgsPerSubject > 0 && !have.DiscardNewPerSubject, fmt.Sprintf(
			"max messages per subject is %d, must be -1: the next event of a tenant deletes its previous one", have.MaxMsgsPerSubject), "--max-msgs-per-subject=-1"},
	}
}

func writeFaults(want, have *jetstream.StreamConfig, kept bool) []fault {
	room := want.Retention == jetstream.WorkQueuePolicy && !consumed(want)
	return []fault{
		{have.Sealed, "it is sealed: nothing can be stored there", ""},
		{have.NoAck, "acknowledgement off is true, must be false: a publisher is never told that its message is stored", "--ack"},
		{room && have.DenyPurge && !have.Sealed, "purge denied is true, must be false: a request could not be removed after its answer, and would wait for ever", ""},
		{kept && want.MaxMsgsPerSubject == 1 && have.DiscardNewPerSubject, "discard new per subject is true, must be false: a final reply could not replace a waiting one", "--no-discard-per-subject"},
		{have.AllowMsgCounter, "it is a counter (message counter): it refuses messages that are no numbers", ""},
	}
}
