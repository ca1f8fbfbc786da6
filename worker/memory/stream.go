package memory

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/events/streams"
)

// Error codes of JetStream that package jetstream does not define.
const (
	codeOtherStream = 10060
	codeStoreFailed = 10077
)

// stream is one stream. The lock of its broker guards it.
type stream struct {
	config    jetstream.StreamConfig
	log       []*stored            // sorted by sequence; may contain removed messages until it is compacted
	live      int                  // messages in log that are not removed
	bytes     int64                // size of the live messages
	bySubject map[string][]*stored // live messages, in order
	last      uint64               // the last assigned sequence
	lastTime  time.Time
	ids       map[string]published // by message id, for deduplication
	consumers map[string]*consumer
}

// stored is one message. Once it is in the log, only gone changes.
type stored struct {
	subject  string
	sequence uint64
	header   nats.Header
	data     []byte
	time     time.Time
	bytes    int64
	gone     bool
}

// published is the message that was published with a message id.
type published struct {
	sequence uint64
	at       time.Time
}

func newStream(config jetstream.StreamConfig) *stream {
	config.Metadata = maps.Clone(config.Metadata)
	return &stream{config: config, last: max(config.FirstSeq, 1) - 1, bySubject: map[string][]*stored{}, ids: map[string]published{}, consumers: map[string]*consumer{}}
}

func (m *stored) read() streams.Message {
	return streams.Message{Subject: m.subject, Sequence: m.sequence, Header: maps.Clone(m.header), Data: slices.Clone(m.data), Time: m.time}
}

// takes reports whether messages on the subject belong to the stream.
func (s *stream) takes(subject string) bool {
	return slices.ContainsFunc(s.config.Subjects, func(pattern string) bool { return matches(pattern, subject) })
}

// publish checks and stores a message. The order of the checks is nats-server's.
func (s *stream) publish(msg *nats.Msg, now time.Time) (*jetstream.PubAck, error) {
	if want := msg.Header.Get(jetstream.ExpectedStreamHeader); want != "" && want != s.config.Name {
		return nil, &jetstream.APIError{Code: 400, ErrorCode: codeOtherStream, Description: "expected stream does not match"}
	}
	id := msg.Header.Get(jetstream.MsgIDHeader)
	if before, known := s.ids[id]; known && id != "" && now.Sub(before.at) < s.config.Duplicates {
		return &jetstream.PubAck{Stream: s.config.Name, Sequence: before.sequence, Duplicate: true}, nil
	}
	if want := msg.Header.Get(jetstream.ExpectedLastSubjSeqHeader); want != "" {
		expected, _ := strconv.ParseUint(want, 10, 64)
		if last := s.lastOn(msg.Subject).orZero(); last != expected {
			return nil, &jetstream.APIError{
				Code: 400, ErrorCode: jetstream.JSErrCodeStreamWrongLastSequence,
				Description: "wrong last sequence: " + strconv.FormatUint(last, 10),
			}
		}
	}
	m := &stored{
		subject: msg.Subject, header: onWire(msg.Header), data: slices.Clone(msg.Data),
		time: now.Round(0).UTC(), bytes: bytesOf(msg),
	}
	if s.config.MaxBytes > 0 && s.config.Discard == jetstream.DiscardNew && s.bytes+m.bytes > s.config.MaxBytes {
		return nil, &jetstream.APIError{Code: 503, ErrorCode: codeStoreFailed, Description: "maximum bytes exceeded"}
	}
	s.append(m)
	if id != "" {
		s.forgetIDs(now)
		s.ids[id] = published{sequence: m.sequence, at: now}
	}
	return &jetstream.PubAck{Stream: s.config.Name, Sequence: m.sequence}, nil
}

func (s *stream) append(m *stored) {
	s.last, s.lastTime = s.last+1, m.time
	m.sequence = s.last
	s.log = append(s.log, m)
	s.live++
	s.bytes += m.bytes
	s.bySubject[m.subject] = append(s.bySubject[m.subject], m)
	if most := s.config.MaxMsgsPerSubject; most > 0 {
		for int64(len(s.bySubject[m.subject])) > most {
			s.remove(s.bySubject[m.subject][0])
		}
	}
}

// forgetIDs drops the message ids whose window has passed, if there are many.
func (s *stream) forgetIDs(now time.Time) {
	if len(s.ids) > 2*s.live+1024 {
		maps.DeleteFunc(s.ids, func(_ string, p published) bool { return now.Sub(p.at) >= s.config.Duplicates })
	}
}

// remove deletes a message.
func (s *stream) remove(m *stored) {
	m.gone = true
	for _, c := range s.consumers {
		c.forget(m.sequence)
	}
	s.live--
	s.bytes -= m.bytes
	on := s.bySubject[m.subject]
	i := slices.Index(on, m)
	if on = slices.Delete(on, i, i+1); len(on) == 0 {
		delete(s.bySubject, m.subject)
	} else {
		s.bySubject[m.subject] = on
	}
	for len(s.log) > 0 && s.log[0].gone {
		s.log = s.log[1:]
	}
	if len(s.log) > 2*s.live+64 {
		s.log = slices.DeleteFunc(s.log, func(m *stored) bool { return m.gone })
	}
}

// expire removes the messages that are older than MaxAge.
func (s *stream) expire(now time.Time) {
	for s.config.MaxAge > 0 && len(s.log) > 0 && now.Sub(s.log[0].time) >= s.config.MaxAge {
		s.remove(s.log[0])
	}
}

func (s *stream) purge(subjects string, upTo uint64) {
	for _, m := range slices.Clone(s.log) {
		if !m.gone && m.sequence <= upTo && matches(subjects, m.subject) {
			s.remove(m)
		}
	}
}

// lastOn returns the last message of a subject, or nil.
func (s *stream) lastOn(subject string) *stored {
	on := s.bySubject[subject]
	if len(on) == 0 {
		return nil
	}
	return on[len(on)-1]
}

// next returns the first message with a matching subject at or after a sequence, or nil.
func (s *stream) next(from uint64, subjects string) *stored {
	for _, m := range s.log[s.position(from):] {
		if !m.gone && matches(subjects, m.subject) {
			return m
		}
	}
	return nil
}

// at returns the message with a sequence, or nil.
func (s *stream) at(sequence uint64) *stored {
	if i := s.position(sequence); i < len(s.log) && s.log[i].sequence == sequence && !s.log[i].gone {
		return s.log[i]
	}
	return nil
}

func (s *stream) position(sequence uint64) int {
	i, _ := slices.BinarySearchFunc(s.log, sequence, func(m *stored, sequence uint64) int {
		switch {
		case m.sequence < sequence:
			return -1
		case m.sequence > sequence:
			return 1
		default:
			return 0
		}
	})
	return i
}

func (s *stream) state() jetstream.StreamState {
	state := jetstream.StreamState{
		Msgs: uint64(s.live), Bytes: uint64(s.bytes), FirstSeq: s.last + 1, LastSeq: s.last, LastTime: s.lastTime,
		Consumers: len(s.consumers), NumSubjects: uint64(len(s.bySubject)),
	}
	if s.live > 0 {
		state.FirstSeq, state.FirstTime = s.log[0].sequence, s.log[0].time
	}
	return state
}

func (m *stored) orZero() uint64 {
	if m == nil {
		return 0
	}
	return m.sequence
}

// matches reports whether a subject matches a pattern with the wildcards * and >.
func matches(pattern, subject string) bool {
	for {
		want, wants, more := strings.Cut(pattern, ".")
		if want == ">" {
			return true
		}
		got, rest, further := strings.Cut(subject, ".")
		if want != "*" && want != got || more != further {
			return false
		}
		if !more {
			return true
		}
		pattern, subject = wants, rest
	}
}

// lines replaces line breaks, which a header cannot contain.
var lines = strings.NewReplacer("\r", " ", "\n", " ")

// onWire returns a header as its recipients read it; nil for an empty one.
func onWire(header nats.Header) nats.Header {
	if len(header) == 0 {
		return nil
	}
	read := make(nats.Header, len(header))
	for name, values := range header {
		for _, value := range values {
			read[name] = append(read[name], strings.TrimSpace(lines.Replace(value)))
		}
	}
	return read
}

// size returns the number of bytes of a message's header and data on the wire.
func size(msg *nats.Msg) int64 {
	bytes := len(msg.Data)
	if len(msg.Header) > 0 {
		bytes += len("NATS/1.0\r\n") + len("\r\n")
	}
	for name, values := range msg.Header {
		for _, value := range values {
			bytes += len(name) + len(": ") + len(value) + len("\r\n")
		}
	}
	return int64(bytes)
}

// recordBytes is the number of bytes that nats-server's file store adds to a message without header. To one
// with a header it adds four more, which bytesOf leaves out.
const recordBytes = 30

// bytesOf returns the size of a message that counts towards MaxBytes of a stream.
func bytesOf(msg *nats.Msg) int64 { return int64(recordBytes+len(msg.Subject)) + size(msg) }
