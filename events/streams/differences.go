package streams

import (
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"
)

// difference compares one setting of a stream or consumer: as defined (want), and as on the server (have).
type difference struct {
	setting    string
	want, have any
}

func streamDifferences(want, have jetstream.StreamConfig) []string {
	slices.Sort(want.Subjects)
	slices.Sort(have.Subjects)
	return texts("stream "+want.Name, []difference{
		{"subjects", want.Subjects, have.Subjects},
		{"retention", want.Retention, have.Retention},
		{"storage", want.Storage, have.Storage},
		{"discard", want.Discard, have.Discard},
		{"max age", want.MaxAge, have.MaxAge},
		{"max bytes", want.MaxBytes, have.MaxBytes},
		{"max messages", want.MaxMsgs, have.MaxMsgs},
		{"max messages per subject", want.MaxMsgsPerSubject, have.MaxMsgsPerSubject},
		{"max message size", want.MaxMsgSize, have.MaxMsgSize},
		{"duplicate window", want.Duplicates, have.Duplicates},
		{"direct reads", want.AllowDirect, have.AllowDirect},
		{"replicas", want.Replicas, have.Replicas},
		{"purge denied", want.DenyPurge, have.DenyPurge},
		{"sealed", want.Sealed, have.Sealed},
		{"delete denied", want.DenyDelete, have.DenyDelete},
		{"max consumers", want.MaxConsumers, have.MaxConsumers},
		{"acknowledgement off", want.NoAck, have.NoAck},
		{"sources", len(want.Sources), len(have.Sources)},
	})
}

func consumerDifferences(want, have jetstream.ConsumerConfig) []string {
	return texts("consumer "+want.Durable, []difference{
		{"ack policy", want.AckPolicy, have.AckPolicy},
		{"ack wait", want.AckWait, have.AckWait},
		{"max deliver", want.MaxDeliver, have.MaxDeliver},
		{"max ack pending", want.MaxAckPending, have.MaxAckPending},
		{"deliver policy", want.DeliverPolicy, have.DeliverPolicy},
		{"back-off", want.BackOff, have.BackOff},
		{"filter", filters(want), filters(have)},
		{"headers only", want.HeadersOnly, have.HeadersOnly},
	})
}

func filters(c jetstream.ConsumerConfig) []string {
	if c.FilterSubject != "" {
		return []string{c.FilterSubject}
	}
	return c.FilterSubjects
}

func texts(of string, differences []difference) []string {
	var lines []string
	for _, d := range differences {
		if want, have := fmt.Sprint(d.want), fmt.Sprint(d.have); want != have {
			lines = append(lines, fmt.Sprintf("%s: %s is %s, should be %s", of, d.setting, OneLine(have, mostText), want))
		}
	}
	return lines
}
