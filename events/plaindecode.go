package events

import (
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
)

// maxPlain is the longest message in bytes that is read as a plain one. The strings of
// its Event are parts of one copy of it, and whoever keeps one of them keeps all of it.
const maxPlain = 4 << 10

// The attributes of an envelope. Those from hasContentType on are not used.
const (
	hasSpecVersion memberSet = 1 << iota
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

// The members of a provision's data. The first four are a deprovision's too.
const (
	hasRuntimeID memberSet = 1 << iota
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

// decodePlain reads a provision or deprovision as nearly all of them are written, some
// times faster than reflection does. Where it is not sure, because something is wrong
// or only unusual, it reads nothing; what it reads is what decodeAny reads.
func decodePlain(subject string, header nats.Header, message []byte) (Event, bool) {
	if len(message) > maxPlain {
		return Event{}, false
	}
	s := plainScanner{text: string(message)}
	if !utf8.ValidString(s.text) {
		return Event{}, false
	}
	var env envelope
	data := new(Provision)
	attributes, given := s.envelope(&env, data)
	if s.end(); s.unsure {
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

// envelope reads the message. Its data are read as a provision's whatever the type,
// which may come later; given are the members that they have.
func (s *plainScanner) envelope(env *envelope, data *Provision) (attributes, given memberSet) {
	var unused string
	for more := s.first('{', '}'); more; more = s.next('}') {
		switch s.name() {
		case "specversion":
			s.member(&attributes, hasSpecVersion, &env.SpecVersion)
		case "id":
			s.member(&attributes, hasID, &env.ID)
		case "source":
			s.member(&attributes, hasSource, &env.Source)
		case "type":
			s.member(&attributes, hasType, &env.Type)
		case "traceparent":
			s.member(&attributes, hasTraceparent, &env.Traceparent)
		case "tracestate":
			s.member(&attributes, hasTracestate, &env.Tracestate)
		case "replayof":
			s.member(&attributes, hasReplayOf, &env.ReplayOf)
		case "datacontenttype":
			s.member(&attributes, hasContentType, &unused)
		case "dataschema":
			s.member(&attributes, hasSchema, &unused)
		case "subject":
			s.member(&attributes, hasSubject, &unused)
		case "time":
			s.member(&attributes, hasTime, &unused)
		case "data":
			s.once(&attributes, hasData)
			given = s.provision(data)
		default:
			s.doubt()
		}
	}
	return attributes, given
}

func (s *plainScanner) provision(p *Provision) (given memberSet) {
	for more := s.first('{', '}'); more; more = s.next('}') {
		switch s.name() {
		case "runtimeID":
			s.member(&given, hasRuntimeID, &p.RuntimeID)
		case "globalAccountID":
			s.member(&given, hasGlobalAccountID, &p.GlobalAccountID)
		case "plan":
			s.member(&given, hasPlan, &p.Plan)
		case "platformRegion":
			s.member(&given, hasPlatformRegion, &p.PlatformRegion)
		case "hyperscalerRegion":
			s.member(&given, hasHyperscalerRegion, &p.HyperscalerRegion)
		case "provider":
			s.member(&given, hasProvider, &p.Provider)
		case "shootName":
			s.member(&given, hasShootName, &p.ShootName)
		case "replyTo":
			s.member(&given, hasReplyTo, &p.ReplyTo)
		case "deadline":
			s.once(&given, hasDeadline)
			p.Deadline = s.time()
		case "cluster":
			s.once(&given, hasCluster)
			p.Cluster = s.cluster()
		case "interface":
			s.once(&given, hasInterface)
			p.Interface = s.interfaced()
		default:
			s.doubt()
		}
	}
	return given
}

func (s *plainScanner) cluster() *Cluster {
	const (
		hasName memberSet = 1 << iota
		hasNamespace
		hasLabels
		hasPurposes
	)
	var have memberSet
	c := new(Cluster)
	for more := s.first('{', '}'); more; more = s.next('}') {
		switch s.name() {
		case "name":
			s.member(&have, hasName, &c.Name)
		case "namespace":
			s.member(&have, hasNamespace, &c.Namespace)
		case "labels":
			s.once(&have, hasLabels)
			c.Labels = s.labels()
		case "purposes":
			s.once(&have, hasPurposes)
			c.Purposes = s.strings()
		default:
			s.doubt()
		}
	}
	return c
}

func (s *plainScanner) labels() map[string]string {
	labels := map[string]string{}
	for more := s.first('{', '}'); more; more = s.next('}') {
		name := s.name()
		if _, twice := labels[name]; twice {
			s.doubt()
		}
		labels[name] = s.string()
	}
	return labels
}

func (s *plainScanner) strings() []string {
	list := []string{}
	for more := s.first('[', ']'); more; more = s.next(']') {
		list = append(list, s.string())
	}
	return list
}

func (s *plainScanner) interfaced() *Interface {
	const (
		hasPath memberSet = 1 << iota
		hasRevision
	)
	var have memberSet
	i := new(Interface)
	for more := s.first('{', '}'); more; more = s.next('}') {
		switch s.name() {
		case "path":
			s.member(&have, hasPath, &i.Path)
		case "revision":
			s.member(&have, hasRevision, &i.Revision)
		default:
			s.doubt()
		}
	}
	return i
}

// time reads a moment in UTC, 2026-11-20T12:00:00Z. Package time alone would take
// hours of one digit and a comma before a fraction, which RFC 3339 does not.
func (s *plainScanner) time() time.Time {
	text := s.string()
	if len(text) < len("2026-11-20T12:00:00Z") || text[len("2026-11-20T1")] == ':' ||
		text[len("2026-11-20T12:00:00")] == ',' || text[len(text)-1] != 'Z' {
		s.doubt()
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		s.doubt()
	}
	return at
}
