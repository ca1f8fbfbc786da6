package events

import (
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"

	"github.com/hap-worker/hap-worker/events/internal/plain"
)

// maxPlain is the size limit, in bytes, of a message that decodePlain reads. All strings of the Event
// share one copy of the message, so a caller that keeps one string keeps the whole copy.
const maxPlain = 4 << 10

// The attributes of an envelope, one bit each. The texts of the attributes from hasContentType on are read and
// discarded.
const (
	hasSpecVersion plain.Members = 1 << iota
	hasID
	hasSource
	hasType
	hasTraceparent
	hasTracestate
	hasReplayOf
	hasData
	hasContentType
	hasSchema
	hasSubject
	hasTime
)

// The members of a provision's data, one bit each. ofDeprovision has those that a deprovision may have, too.
const (
	hasRuntimeID plain.Members = 1 << iota
	hasGlobalAccountID
	hasShootName
	hasReplyTo
	hasPlan
	hasPlatformRegion
	hasHyperscalerRegion
	hasProvider
	hasDeadline
	hasCluster
	hasInterface

	ofDeprovision = hasRuntimeID | hasGlobalAccountID | hasShootName | hasReplyTo
)

// plainReader reads the parts of a plain message.
type plainReader struct{ plain.Scanner }

// decodePlain decodes a provision or deprovision in the usual form, several times faster than
// decodeAny. It returns false for a message that is invalid or merely unusual; the caller then uses
// decodeAny. If it returns true, the Event is the one that decodeAny would return.
func decodePlain(subject string, header nats.Header, message []byte) (Event, bool) {
	if len(message) > maxPlain {
		return Event{}, false
	}
	text := string(message)
	if !utf8.ValidString(text) {
		return Event{}, false
	}
	s := plainReader{plain.Scan(text)}
	var env envelope
	data := new(Provision)
	attributes, given := s.envelope(&env, data)
	if s.End(); s.Unsure {
		return Event{}, false
	}
	event, err := env.event(attributes&hasData != 0)
	if err != nil {
		return Event{}, false
	}
	switch {
	case event.Type == TypeProvision:
		event.Provision = data
	case event.Type == TypeDeprovision && given&^ofDeprovision == 0:
		event.Deprovision = &Deprovision{
			RuntimeID: data.RuntimeID, GlobalAccountID: data.GlobalAccountID, ShootName: data.ShootName, ReplyTo: data.ReplyTo,
		}
	default:
		return Event{}, false
	}
	event.trace(header)
	return event, event.accept(subject) == nil
}

// envelope reads the message. It reads the data as a provision's, because the type may come after the
// data. It returns which attributes, and which members of the data, were present.
func (s *plainReader) envelope(env *envelope, data *Provision) (attributes, given plain.Members) {
	var unused string
	for more := s.First('{', '}'); more; more = s.Next('}') {
		switch s.Name() {
		case "specversion":
			s.Member(&attributes, hasSpecVersion, &env.SpecVersion)
		case "id":
			s.Member(&attributes, hasID, &env.ID)
		case "source":
			s.Member(&attributes, hasSource, &env.Source)
		case "type":
			s.Member(&attributes, hasType, &env.Type)
		case "traceparent":
			s.Member(&attributes, hasTraceparent, &env.Traceparent)
		case "tracestate":
			s.Member(&attributes, hasTracestate, &env.Tracestate)
		case "replayof":
			s.Member(&attributes, hasReplayOf, &env.ReplayOf)
		case "datacontenttype":
			s.Member(&attributes, hasContentType, &unused)
		case "dataschema":
			s.Member(&attributes, hasSchema, &unused)
		case "subject":
			s.Member(&attributes, hasSubject, &unused)
		case "time":
			s.Member(&attributes, hasTime, &unused)
		case "data":
			s.Once(&attributes, hasData)
			given = s.provision(data)
		default:
			s.Doubt()
		}
	}
	return attributes, given
}

func (s *plainReader) provision(p *Provision) (given plain.Members) {
	for more := s.First('{', '}'); more; more = s.Next('}') {
		switch s.Name() {
		case "runtimeID":
			s.Member(&given, hasRuntimeID, &p.RuntimeID)
		case "globalAccountID":
			s.Member(&given, hasGlobalAccountID, &p.GlobalAccountID)
		case "plan":
			s.Member(&given, hasPlan, &p.Plan)
		case "platformRegion":
			s.Member(&given, hasPlatformRegion, &p.PlatformRegion)
		case "hyperscalerRegion":
			s.Member(&given, hasHyperscalerRegion, &p.HyperscalerRegion)
		case "provider":
			s.Member(&given, hasProvider, &p.Provider)
		case "shootName":
			s.Member(&given, hasShootName, &p.ShootName)
		case "replyTo":
			s.Member(&given, hasReplyTo, &p.ReplyTo)
		case "deadline":
			s.Once(&given, hasDeadline)
			p.Deadline = s.time()
		case "cluster":
			s.Once(&given, hasCluster)
			p.Cluster = s.cluster()
		case "interface":
			s.Once(&given, hasInterface)
			p.Interface = s.interfaced()
		default:
			s.Doubt()
		}
	}
	return given
}

func (s *plainReader) cluster() *Cluster {
	const (
		hasName plain.Members = 1 << iota
		hasNamespace
		hasLabels
		hasPurposes
	)
	var have plain.Members
	c := new(Cluster)
	for more := s.First('{', '}'); more; more = s.Next('}') {
		switch s.Name() {
		case "name":
			s.Member(&have, hasName, &c.Name)
		case "namespace":
			s.Member(&have, hasNamespace, &c.Namespace)
		case "labels":
			s.Once(&have, hasLabels)
			c.Labels = s.labels()
		case "purposes":
			s.Once(&have, hasPurposes)
			c.Purposes = s.strings()
		default:
			s.Doubt()
		}
	}
	return c
}

func (s *plainReader) labels() map[string]string {
	labels := map[string]string{}
	for more := s.First('{', '}'); more; more = s.Next('}') {
		name := s.Name()
		if _, twice := labels[name]; twice {
			s.Doubt()
		}
		labels[name] = s.Text()
	}
	return labels
}

func (s *plainReader) strings() []string {
	list := []string{}
	for more := s.First('[', ']'); more; more = s.Next(']') {
		list = append(list, s.Text())
	}
	return list
}

func (s *plainReader) interfaced() *Interface {
	const (
		hasPath plain.Members = 1 << iota
		hasRevision
	)
	var have plain.Members
	i := new(Interface)
	for more := s.First('{', '}'); more; more = s.Next('}') {
		switch s.Name() {
		case "path":
			s.Member(&have, hasPath, &i.Path)
		case "revision":
			s.Member(&have, hasRevision, &i.Revision)
		default:
			s.Doubt()
		}
	}
	return i
}

// time reads a moment in UTC, such as 2026-11-20T12:00:00Z. time.Parse alone would accept one-digit
// hours and a comma before the fraction, which RFC 3339 forbids.
func (s *plainReader) time() time.Time {
	text := s.Text()
	if len(text) < len("2026-11-20T12:00:00Z") || text[len("2026-11-20T1")] == ':' ||
		text[len("2026-11-20T12:00:00")] == ',' || text[len(text)-1] != 'Z' {
		s.Doubt()
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		s.Doubt()
	}
	return at
}
