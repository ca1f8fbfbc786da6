package events_test

import (
	"strings"
	"testing"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/contract"
)

func TestSubjects(t *testing.T) {
	t.Parallel()
	s, err := events.NewSubjects("")
	if err != nil {
		t.Fatal(err)
	}
	for got, want := range map[string]string{
		s.Provision("ga-1"):                     "hap.v1.provision.ga-1",
		s.Deprovision("ga-1"):                   "hap.v1.deprovision.ga-1",
		s.Deprovision(""):                       "hap.v1.deprovision.unknown",
		s.Release("aws.7"):                      "hap.v1.release.aws=2E7",
		s.Resolve("rt-1"):                       "hap.v1.resolve.rt-1",
		s.Reply("rt-1", "req-1"):                "hap.v1.reply.rt-1.req-1",
		s.BindingReply("aws.7", "req-1"):        "hap.v1.reply._binding.aws=2E7.req-1",
		s.RuntimeReplies("rt-1"):                "hap.v1.reply.rt-1.*",
		s.Waiting("aws+eu", "ga-1", "rt", "rq"): "hap.v1.waiting.aws=2Beu.ga-1.rt.rq",
		s.Dead(events.TypeResolve):              "hap.v1.dead.resolve",
		s.Dead(""):                              "hap.v1.dead.unknown",
		s.Dead("a.b"):                           "hap.v1.dead.unknown",
		s.Replies():                             "hap.v1.reply.>",
		s.AllWaiting():                          "hap.v1.waiting.>",
		s.AllDead():                             "hap.v1.dead.>",
		strings.Join(s.Events(), " "):           "hap.v1.provision.* hap.v1.deprovision.* hap.v1.release.* hap.v1.resolve.*",
	} {
		if got != want {
			t.Errorf("%s instead of %s", got, want)
		}
	}
}

func TestSubjectsPrefix(t *testing.T) {
	t.Parallel()
	s, err := events.NewSubjects("landscape.hap-2")
	if err != nil || s.Prefix() != "landscape.hap-2" || s.Resolve("x") != "landscape.hap-2.resolve.x" {
		t.Errorf("%v, %v", s, err)
	}
	for _, prefix := range []string{".", "hap.", ".hap", "hap..v1", "hap.*", "hap.>", "hap v1", "häp"} {
		if _, err := events.NewSubjects(prefix); err == nil || !strings.Contains(err.Error(), prefix) {
			t.Errorf("prefix %q: %v", prefix, err)
		}
	}
}

func TestParseReply(t *testing.T) {
	t.Parallel()
	s, _ := events.NewSubjects("p.q")
	for subject, want := range map[string]events.ReplyAddress{
		s.Reply("rt-1", "req-1"):         {RuntimeID: "rt-1", RequestID: "req-1"},
		s.BindingReply("aws.7", "req-1"): {Binding: "aws.7", RequestID: "req-1"},
	} {
		if got, err := s.ParseReply(subject); err != nil || got != want {
			t.Errorf("%s: %+v, %v", subject, got, err)
		}
	}
	for _, subject := range []string{
		"", "p.q.reply", "p.q.reply.a", "p.q.reply.a.b.c", "p.q.reply._binding.a", "p.q.reply._binding..r", "p.q.reply._binding.=Z.r",
		"p.q.reply.a-.r", "p.q.reply.a.-r", "p.r.reply.a.b", "p.q.waiting.a.b", "x.p.q.reply.a.b",
	} {
		if got, err := s.ParseReply(subject); err == nil {
			t.Errorf("%s is %+v", subject, got)
		}
	}
}

func TestParseWaiting(t *testing.T) {
	t.Parallel()
	s, _ := events.NewSubjects("")
	want := events.WaitingAddress{Pool: "aws_cf-eu11+eu", GlobalAccountID: "ga", RuntimeID: "rt", RequestID: "rq"}
	if got, err := s.ParseWaiting(s.Waiting(want.Pool, "ga", "rt", "rq")); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	for _, subject := range []string{"hap.v1.waiting.a.b.c", "hap.v1.waiting..b.c.d", "hap.v1.waiting.a.b.c.d.e", "hap.v1.waiting.=.b.c.d", "hap.v1.waiting.a.b_.c.d"} {
		if got, err := s.ParseWaiting(subject); err == nil {
			t.Errorf("%s is %+v", subject, got)
		}
	}
}

func TestReplySubject(t *testing.T) {
	t.Parallel()
	s, _ := events.NewSubjects("")
	for want, e := range map[string]events.Event{
		"hap.v1.reply.rt.rq":            {ID: "rq", RuntimeID: "rt"},
		"hap.v1.reply._binding.a=2E.rq": {ID: "rq", Binding: "a."},
		"":                              {ID: "rq"},
	} {
		if got := e.ReplySubject(s); got != want {
			t.Errorf("%q instead of %q", got, want)
		}
	}
	if got := (events.Event{RuntimeID: "rt"}).ReplySubject(s); got != "" {
		t.Errorf("without an id: %q", got)
	}
	if got := events.TypeRelease.CloudEvent(); got != "hap.release.v1" {
		t.Error(got)
	}
	if !contract.ValidID(events.AnyTenant) {
		t.Error("AnyTenant is no token that Decode takes")
	}
}

func TestTenantIn(t *testing.T) {
	t.Parallel()
	for subject, want := range map[string]string{
		"hap.v1.provision.ga-1": "ga-1", "x.deprovision.ga-1": "ga-1",
		"hap.v1.deprovision.unknown": "", "hap.v1.resolve.rt-1": "", "hap.v1.release.aws-1": "",
		"hap.v1.provision.": "", "hap.v1.provision.-": "", "hap.v1.other.ga-1": "", "": "",
	} {
		if got := events.TenantIn(subject); got != want {
			t.Errorf("%q is of %q, want %q", subject, got, want)
		}
	}
}
