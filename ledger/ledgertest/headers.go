package ledgertest

import (
	"slices"

	"github.com/nats-io/nats.go"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/ledger/dead"
)

// pretences are headers with which a publisher makes its message look like one of the server.
var pretences = []nats.Header{
	{"Status": {"100"}, "Description": {"Idle Heartbeat"}},
	{"Status": {"400"}, "Description": {"Bad Request"}},
	{"Status": {"404"}, "Description": {"No Messages"}},
	{"Status": {"408"}, "Description": {"Request Timeout"}, "Nats-Pending-Messages": {"1000"}},
	{"Status": {"409"}, "Description": {"Consumer Deleted"}},
	{"Status": {"409"}, "Description": {"Leadership Change"}},
	{"Status": {"423"}},
	{"Status": {"503"}},
	{"Nats-Pin-Id": {"mine"}},
}

// testPretences checks that messages without data are delivered whatever their headers say, and those after them.
func testPretences(b *bench) {
	for _, header := range pretences {
		_, err := b.Publish(b.ctx(), &nats.Msg{Subject: b.subjects.Provision("ga"), Header: header})
		b.must(err)
	}
	b.event("a")
	i := b.iterator()
	for _, header := range pretences {
		msg := i.one()
		if len(msg.Data()) != 0 || !slices.Equal(msg.Headers()["Status"], header["Status"]) {
			b.t.Errorf("%v came in place of %v", msg.Headers(), header)
		}
		b.must(msg.DoubleAck(b.ctx()))
	}
	b.must(i.next("a", 1).DoubleAck(b.ctx()))
	b.same("left", b.unsettled(), nil)
}

// testDeadLetterHeaders checks that no header keeps a letter from being stored or read.
func testDeadLetterHeaders(b *bench) {
	l := dead.Event{Subject: "hap.v1.provision.ga", Sequence: 3, Header: nats.Header{"a/b": {"1"}, "": {"2"}, "Kept": {"3"}, "Nats-Pin-Id": {"4"}}}
	b.must(b.dead.Put(b.ctx(), l, engine.CodeInvalidEvent, "no JSON"))
	for n, header := range pretences {
		b.must(b.dead.Put(b.ctx(), dead.Event{Subject: l.Subject, Sequence: uint64(4 + n), Header: header}, engine.CodeInvalidEvent, "no JSON"))
	}
	found := b.letters()
	if len(found) != 1+len(pretences) {
		b.t.Fatalf("%d letters are read, %d were put", len(found), 1+len(pretences))
	}
	if found[0].Truncated != "headers" || found[0].Header.Get("Kept") != "3" {
		b.t.Errorf("the letter is %+v", found[0])
	}
	_, err := b.Publish(b.ctx(), &nats.Msg{Subject: b.subjects.Provision("ga"), Header: l.Header})
	b.wants(err, nats.ErrBadHeaderMsg)
}
