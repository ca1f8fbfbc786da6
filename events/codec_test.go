package events_test

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"pgregory.net/rapid"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/contract"
	"github.com/hap-worker/hap-worker/events/eventstest"
)

func TestEventRoundTrip(t *testing.T) {
	t.Parallel()
	id := rapid.StringMatching(`[A-Za-z0-9]([-A-Za-z0-9_]{0,8}[A-Za-z0-9])?`)
	rapid.Check(t, func(t *rapid.T) {
		inbox := rapid.SampledFrom([]string{"", "_INBOX.abc"}).Draw(t, "replyTo")
		runtime, tenant, text := id.Draw(t, "runtime"), id.Draw(t, "tenant"), rapid.StringN(1, 40, -1).Draw(t, "text")
		e := events.Event{ID: id.Draw(t, "id"), Source: "/keb", ReplyTo: inbox, RuntimeID: runtime}
		subjects, err := events.NewSubjects("")
		if err != nil {
			t.Fatal(err)
		}
		var subject string
		switch e.Type = rapid.SampledFrom(typesInOrder()).Draw(t, "type"); e.Type {
		case events.TypeProvision:
			e.Provision = &events.Provision{RuntimeID: runtime, GlobalAccountID: tenant, Plan: tenant, ReplyTo: inbox,
				Deadline: time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "deadline"), 0).UTC(),
				Cluster:  &events.Cluster{Labels: map[string]string{text: text, "x": "y"}, Purposes: []string{text}}}
			subject = subjects.Provision(tenant)
		case events.TypeDeprovision:
			e.Deprovision = &events.Deprovision{RuntimeID: runtime, ReplyTo: inbox}
			subject = subjects.Deprovision("")
		case events.TypeRelease:
			generation := rapid.Int64Range(0, 1<<53-1).Draw(t, "generation")
			e.RuntimeID, e.Binding = "", text
			e.Release = &events.Release{Binding: text, Generation: &generation, UID: text, ReplyTo: inbox}
			subject = subjects.Release(text)
		case events.TypeResolve:
			e.Resolve = &events.Resolve{RuntimeID: runtime, Interface: events.Interface{Path: text}, ReplyTo: inbox}
			subject = subjects.Resolve(runtime)
		}
		data, err := events.EncodeEvent(e)
		if err != nil {
			t.Fatal(err)
		}
		again, err := events.EncodeEvent(e)
		if err != nil || !bytes.Equal(data, again) {
			t.Fatalf("the same event gives\n%s and\n%s, %v", data, again, err)
		}
		got, err := events.Decode(subject, nil, data)
		if err != nil || !reflect.DeepEqual(got, e) {
			t.Fatalf("%s\ngot  %+v\nwant %+v\n%v", data, got, e, err)
		}
	})
}

func TestReplyRoundTrip(t *testing.T) {
	t.Parallel()
	want := assigned("req-1")
	data, err := events.EncodeReply(want, "/hap-worker")
	if err != nil {
		t.Fatal(err)
	}
	got, err := events.DecodeReply(data)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%s\ngot  %+v\nwant %+v\n%v", data, got, want, err)
	}
	for _, part := range []string{`"id":"req-1/assigned"`, `"type":"hap.reply.v1"`, `"source":"/hap-worker"`, `"specversion":"1.0"`,
		`"shared":false`, `"clusters":12`} {
		if !strings.Contains(string(data), part) {
			t.Errorf("%s is not in %s", part, data)
		}
	}
	for _, part := range []string{"waiting", "network", "implementation", "markedDirty", "draining", "error", "shootName", "cluster\""} {
		if strings.Contains(string(data), `"`+part) {
			t.Errorf("%s does not apply and is in %s", part, data)
		}
	}
}

// A deprovision that leaves no cluster says so: 0 applies, unlike an absent count.
func TestReplyZeroClusters(t *testing.T) {
	t.Parallel()
	data, err := events.EncodeReply(events.Reply{RequestID: "r", RuntimeID: "rt", Status: events.StatusReleased, Clusters: new(0), MarkedDirty: true}, "/s")
	if err != nil || !strings.Contains(string(data), `"clusters":0`) {
		t.Errorf("%s, %v", data, err)
	}
}

// A rejection quotes the faulty event; it must be storable whatever was in there.
func TestReplyRepairsText(t *testing.T) {
	t.Parallel()
	r := events.Reply{RequestID: "r", RuntimeID: "rt", Status: events.StatusRejected,
		Error: &events.ReplyError{Code: contract.CodeInvalidEvent, Message: "bad \xff byte"}}
	data, err := events.EncodeReply(r, "/s")
	if err != nil {
		t.Fatal(err)
	}
	got, err := events.DecodeReply(data)
	if err != nil || got.Error.Message != "bad � byte" {
		t.Errorf("%+v, %v", got.Error, err)
	}
}

func TestReplyRefused(t *testing.T) {
	t.Parallel()
	for want, r := range map[string]events.Reply{
		"data.requestID is missing":           {Status: events.StatusReleased},
		"data.status is missing":              {RequestID: "r"},
		`data.status "done" is unknown`:       {RequestID: "r", Status: "done"},
		"data.error is missing":               {RequestID: "r", Status: events.StatusRejected},
		"data.binding.name is missing":        {RequestID: "r", Status: events.StatusAssigned, Binding: &events.Binding{}},
		"data.error.code is missing":          {RequestID: "r", Status: events.StatusRejected, Error: &events.ReplyError{Message: "m"}},
		"data.waiting.reason is missing":      {RequestID: "r", Status: events.StatusWaiting, Waiting: &events.Waiting{}},
		"data.network.cidr is missing":        {RequestID: "r", Status: events.StatusAssigned, Network: []events.Network{{Rule: "x"}}},
		"data.shootPatch.path is missing":     {RequestID: "r", Status: events.StatusAssigned, ShootPatch: []events.PatchOperation{{Op: "add"}}},
		"data.implementation.path is missing": {RequestID: "r", Status: events.StatusResolved, Implementation: &events.Implementation{Revision: "x"}},
		"data.decision.considered.verdict is missing": {RequestID: "r", Status: events.StatusAssigned,
			Decision: &events.Decision{Considered: []events.Considered{{Binding: "b"}}}},
	} {
		if _, err := events.EncodeReply(r, "/s"); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%v instead of %s", err, want)
		}
	}
	for want, text := range map[string]string{
		"not JSON":                      `x`,
		`specversion is "2.0"`:          `{"specversion":"2.0"}`,
		`type is "hap.provision.v1"`:    `{"specversion":"1.0","type":"hap.provision.v1"}`,
		"source is missing":             `{"specversion":"1.0","type":"hap.reply.v1"}`,
		"data is missing":               `{"specversion":"1.0","type":"hap.reply.v1","source":"/s"}`,
		`the data say "r/released"`:     `{"specversion":"1.0","type":"hap.reply.v1","source":"/s","id":"r/assigned","data":{"requestID":"r","status":"released"}}`,
		"data.limit must be a whole":    `{"specversion":"1.0","type":"hap.reply.v1","source":"/s","id":"r/released","data":{"requestID":"r","status":"released","limit":"1"}}`,
		"data.clusters must not be nul": `{"specversion":"1.0","type":"hap.reply.v1","source":"/s","id":"r/released","data":{"requestID":"r","status":"released","clusters":null}}`,
	} {
		if _, err := events.DecodeReply([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v instead of %s", err, want)
		}
	}
}

func TestEncodeEventRefused(t *testing.T) {
	t.Parallel()
	huge := provision("1")
	huge.Provision.Cluster = &events.Cluster{Labels: map[string]string{"a": strings.Repeat("x", events.MaxMessage)}}
	binary := provision("1")
	binary.Provision.Cluster = &events.Cluster{Labels: map[string]string{"a": "\xff"}}
	for want, e := range map[string]events.Event{
		"id is missing":         {},
		"source is missing":     {ID: "1"},
		"needs its data":        {ID: "1", Source: "/s", Type: events.TypeRelease, Provision: huge.Provision},
		"data.binding is miss":  {ID: "1", Source: "/s", Type: events.TypeRelease, Release: &events.Release{}},
		"from 0 to 2^53-1":      {ID: "1", Source: "/s", Type: events.TypeRelease, Release: &events.Release{Binding: "b", Generation: new(int64(-1))}},
		"data.uid has 129 char": {ID: "1", Source: "/s", Type: events.TypeRelease, Release: &events.Release{Binding: "b", UID: strings.Repeat("u", 129)}},
		"more than the 262144":  huge,
		"cannot be written as ": binary,
	} {
		_, err := events.EncodeEvent(e)
		if err == nil || !strings.Contains(err.Error(), want) || contract.CodeOf(err) != contract.CodeInvalidEvent {
			t.Errorf("%v instead of %s", err, want)
		}
	}
}

func TestStatusFinal(t *testing.T) {
	t.Parallel()
	for status, want := range map[events.Status]bool{
		events.StatusAssigned: true, events.StatusReleased: true, events.StatusReturned: true, events.StatusResolved: true,
		events.StatusRejected: true, events.StatusWaiting: false, events.StatusSealed: false, "": false, "other": false,
	} {
		if got := (events.Reply{Status: status}).Final(); got != want {
			t.Errorf("%q is final: %t", status, got)
		}
	}
}

// An invalid trace header does not replace the event's trace context: proxies and publishers write
// such headers.
func TestInvalidTraceparent(t *testing.T) {
	t.Parallel()
	const inEvent, inHeader = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	data, err := events.EncodeEvent(events.Event{
		ID: "d-1", Source: "/s", Type: events.TypeDeprovision, Deprovision: &events.Deprovision{RuntimeID: "rt-1"}, Traceparent: inEvent, Tracestate: "a=b",
	})
	if err != nil {
		t.Fatal(err)
	}
	for header, want := range map[string]string{
		"":                                     inEvent,
		inHeader:                               inHeader,
		"01" + inHeader[2:] + "-more":          "01" + inHeader[2:] + "-more", // a later version
		inHeader + "-more":                     inEvent,
		inHeader + "0":                         inEvent,
		inHeader[:54]:                          inEvent,
		"ff" + inHeader[2:]:                    inEvent,
		"none":                                 inEvent,
		strings.ToUpper(inHeader):              inEvent,
		strings.ReplaceAll(inHeader, "-", "0"): inEvent,
		"00-00000000000000000000000000000000-00f067aa0ba902b7-01": inEvent,
		"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01": inEvent,
	} {
		e, err := events.Decode("hap.v1.deprovision.any", nats.Header{"traceparent": {header}, "tracestate": {"c=d"}}, data)
		state := map[bool]string{true: "a=b", false: "c=d"}[want == inEvent]
		if err != nil || e.Traceparent != want || e.Tracestate != state {
			t.Errorf("header %q: traceparent %q, state %q, %v, want %q, %q", header, e.Traceparent, e.Tracestate, err, want, state)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for kind, data := range eventstest.Full {
		f.Add("hap.v1."+kind+".ga-1", "application/cloudevents+json",
			[]byte(`{"specversion":"1.0","id":"req-1","source":"/s","type":"hap.`+kind+`.v1","data":`+data+`}`))
	}
	f.Add("", "", []byte(`{"data":{"data":[{"data":1e999}]}}`))
	f.Fuzz(func(t *testing.T, subject, contentType string, message []byte) {
		event, err := events.Decode(subject, nats.Header{"Content-Type": {contentType}}, message)
		if err != nil && contract.CodeOf(err) != contract.CodeInvalidEvent {
			t.Errorf("the code of %v", err)
		}
		if event.ID != "" && !contract.ValidID(event.ID) || event.RuntimeID != "" && !contract.ValidID(event.RuntimeID) {
			t.Errorf("bad ids in %+v", event)
		}
		if event.ReplyTo != "" && !strings.HasPrefix(event.ReplyTo, "_INBOX.") {
			t.Errorf("copies would go to %q", event.ReplyTo)
		}
		if err == nil {
			if _, err := events.EncodeEvent(event); err != nil {
				t.Errorf("%+v was read, but: %v", event, err)
			}
		}
		_, _ = events.DecodeReply(message)
	})
}

func BenchmarkDecodeReply(b *testing.B) {
	data, err := events.EncodeReply(assigned("1"), "/hap-worker")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := events.DecodeReply(data); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncodeEvent(b *testing.B) {
	e := provision("1")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := events.EncodeEvent(e); err != nil {
			b.Fatal(err)
		}
	}
}
