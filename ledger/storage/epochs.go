package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events/streams"

	"github.com/hap-worker/hap-worker/events"
)

// The record of the epochs in force (rule 15) is a message of the ledger. So the permission to write
// replies covers the record, and replies and record are lost and restored together. To readers of replies
// the record is a sealed reply, which they skip.
const (
	recordRuntime = "_epochs" // no runtime's name: an id begins with a letter or a digit
	recordRequest = "in-force"
)

// EpochRecord is the ledger's record of the epochs in force.
type EpochRecord struct {
	Epochs   account.Epochs
	Sequence uint64 // of the stream; 0 for no record
	// Unreadable is set if the last message on the record's subject is no record, and says why. No
	// epoch is in force then.
	Unreadable error
}

type recordMessage struct {
	SpecVersion     string     `json:"specversion"`
	ID              string     `json:"id"`
	Source          string     `json:"source"`
	Type            string     `json:"type"`
	DataContentType string     `json:"datacontenttype"`
	Data            recordData `json:"data"`
}

type recordData struct {
	RequestID string         `json:"requestID"`
	Status    events.Status  `json:"status"`
	Epochs    account.Epochs `json:"epochs"`
}

func (l *Ledger) recordSubject() string { return l.subjects.Reply(recordRuntime, recordRequest) }

// Epochs reads the record of the epochs in force from the leader of the stream. It returns the zero
// EpochRecord if there is none. A message that is no record sets Unreadable and is no error, because
// the next record replaces it. The caller must not change the result: it is shared.
func (l *Ledger) Epochs(ctx context.Context) (EpochRecord, error) {
	msg, err := l.streams.Message(ctx, l.stream(), streams.Query{LastFor: l.recordSubject()})
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return EpochRecord{}, nil
	}
	if err != nil {
		return EpochRecord{}, fmt.Errorf("reading which epochs are in force: %w", err)
	}
	// Compare bytes, not sequences: a recreated stream counts its messages from 1 again.
	if last := l.record.Load(); last != nil && bytes.Equal(last.data, msg.Data) {
		return EpochRecord{Epochs: last.epochs, Sequence: msg.Sequence}, nil
	}
	var read recordMessage
	err = json.Unmarshal(msg.Data, &read)
	if err == nil && (read.Data.RequestID != recordRequest || read.Data.Status != events.StatusSealed) {
		err = errNoRecord
	}
	if err != nil {
		return EpochRecord{Sequence: msg.Sequence, Unreadable: fmt.Errorf("message %d of %s: %w", msg.Sequence, l.stream(), err)}, nil
	}
	l.record.Store(&readRecord{data: bytes.Clone(msg.Data), epochs: read.Data.Epochs})
	return EpochRecord{Epochs: read.Data.Epochs, Sequence: msg.Sequence}, nil
}

type readRecord struct {
	data   []byte
	epochs account.Epochs
}

var errNoRecord = errors.New("it is not a record of the epochs in force")

// SetEpochs writes the record, and returns its sequence in the stream, if follows is the sequence of the last
// message on the record's subject (0: none). Otherwise it returns ErrWrongLastSequence. After any other error
// the record may or may not be written.
func (l *Ledger) SetEpochs(ctx context.Context, epochs account.Epochs, follows uint64) (sequence uint64, err error) {
	data, err := json.Marshal(recordMessage{
		SpecVersion: events.SpecVersion, ID: recordRequest + "/" + string(events.StatusSealed), Source: l.source, Type: events.TypeReply,
		DataContentType: "application/json", Data: recordData{RequestID: recordRequest, Status: events.StatusSealed, Epochs: epochs},
	}, json.Deterministic(true))
	if err != nil {
		return 0, err
	}
	msg := message(ctx, l.recordSubject(), data)
	msg.Header[jetstream.ExpectedStreamHeader] = []string{l.stream()}
	msg.Header[jetstream.ExpectedLastSubjSeqHeader] = []string{strconv.FormatUint(follows, 10)}
	ack, err := l.streams.Publish(ctx, msg)
	switch {
	case streams.WrongLastSequence(err):
		return 0, fmt.Errorf("the record of epochs is not stored, since it was to follow sequence %d: %w", follows, ErrWrongLastSequence)
	case err != nil:
		return 0, fmt.Errorf("storing the record of epochs: %w", err)
	}
	return ack.Sequence, nil
}

// Replicas returns how many servers keep the ledger.
func (l *Ledger) Replicas(ctx context.Context) (int, error) {
	return l.streams.Replicas(ctx, l.stream())
}
