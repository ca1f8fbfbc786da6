package integration_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/engine/seedtest"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/integration/checker"
	"github.com/hap-worker/hap-worker/integration/stack"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

const (
	mainJobTenants = 50
	mainJobEvents  = 1000
)

// oneAccountRules are the initial rules, one account for each tenant and pool.
const oneAccountRules = stack.InitialRules

// TestMainJob is the main job under duplicates: 1,000 runtimes of 50 tenants over
// all plans, every event a second time with another Nats-Msg-Id, half of them a
// third time under another request id, two worker processes.
func TestMainJob(t *testing.T) {
	t.Parallel()
	s := startStack(t, stack.Options{Config: []byte(oneAccountRules), Accounts: roomyAccounts(mainJobTenants), Workers: 2})
	random := newRandom(t)
	p := newPublisher(t, s)
	for n := range mainJobEvents {
		e := randomProvision(random, n)
		p.publish(e, "")
		p.publish(e, "again/"+e.ID)
		if n%2 == 0 {
			e.ID = "third-" + e.ID
			p.publish(e, "")
		}
	}
	p.flush()
	p.awaitSettled()

	facts := p.facts()
	if got := len(facts.Published); got != mainJobEvents {
		t.Fatalf("published %d runtimes, want %d", got, mainJobEvents)
	}
	for _, violation := range facts.Violations(checker.Terms{OneAccount: true}) {
		t.Error(violation)
	}
	assigned, claimed := 0, map[string]int{}
	for subject, r := range facts.Replies {
		if r.Status != events.StatusAssigned {
			t.Errorf("%s: %s %+v", subject, r.Status, r.Error)
			continue
		}
		assigned++
		if r.Binding.Claimed {
			claimed[r.Binding.Name]++
		}
	}
	if want := mainJobEvents * 3 / 2; assigned != want {
		t.Errorf("%d requests are answered with a binding, want %d", assigned, want)
	}
	for name, b := range facts.Bindings {
		if !b.Shared && b.Tenant != "" && claimed[name] != 1 {
			t.Errorf("binding %s of %s was claimed by %d requests, want exactly one", name, b.Tenant, claimed[name])
		}
	}
}

// roomyAccounts are enough for every tenant to have one of each dedicated pool.
func roomyAccounts(tenants int) []stack.Account {
	var accounts []stack.Account
	add := func(name, kind string, labels map[string]string, n int) {
		for i := range n {
			accounts = append(accounts, stack.Account{Name: fmt.Sprintf("%s-%d", name, i+1), HyperscalerType: kind, Labels: labels})
		}
	}
	eu, shared := map[string]string{"euAccess": "true"}, map[string]string{"shared": "true"}
	add("aws", "aws", nil, tenants)
	add("aws-eu", "aws", eu, tenants)
	add("azure", "azure", nil, tenants)
	add("azure-eu", "azure", eu, tenants)
	add("gcp", "gcp", nil, tenants)
	add("gcp-sa30", "gcp_cf-sa30", nil, tenants)
	add("aws-trial", "aws", shared, 3)
	add("azure-trial", "azure", shared, 3)
	add("cc-de-1", "openstack_eu-de-1", shared, 2)
	add("cc-de-2", "openstack_eu-de-2", shared, 2)
	return accounts
}

// newRandom begins with a seed that the log shows.
func newRandom(t *testing.T) *rand.Rand {
	t.Helper()
	seed := seedtest.Of(t)
	return rand.New(rand.NewPCG(seed, 1))
}

// randomProvision asks for a cluster of any plan of the initial rules.
func randomProvision(r *rand.Rand, n int) events.Event {
	type ask struct{ plan, pr, hr, provider string }
	asks := []ask{
		{"aws", "cf-us10", "us-east-1", ""}, {"aws", "cf-eu11", "eu-central-1", ""},
		{"azure", "cf-eu20", "westeurope", ""}, {"azure", "cf-ch20", "switzerlandnorth", ""},
		{"gcp", "cf-eu30", "europe-west3", ""}, {"gcp", "cf-sa30", "me-central2", ""},
		{"trial", "cf-us10", "us-east-1", "aws"}, {"trial", "cf-us21", "eastus", "azure"},
		{"sap-converged-cloud", "cf-eu20", "eu-de-1", ""}, {"sap-converged-cloud", "cf-eu20", "eu-de-2", ""},
		{"azure_lite", "cf-eu20", "westeurope", ""}, {"preview", "cf-us10", "us-east-1", ""},
		{"free", "cf-us10", "us-east-1", "aws"}, {"free", "cf-eu20", "westeurope", "azure"},
	}
	a := asks[r.IntN(len(asks))]
	id := fmt.Sprintf("rt-%04d", n)
	return events.Event{
		Type: events.TypeProvision, ID: "req-" + id, Source: "/integration", RuntimeID: id,
		Provision: &events.Provision{
			RuntimeID: id, GlobalAccountID: fmt.Sprintf("ga-%02d", r.IntN(mainJobTenants)), Plan: a.plan,
			PlatformRegion: a.pr, HyperscalerRegion: a.hr, Provider: a.provider, ShootName: "c-" + id,
		},
	}
}

func startStack(t *testing.T, o stack.Options) *stack.Stack {
	t.Helper()
	o.Gardener = cmp.Or(o.Gardener, usualGardener)
	if o.WorkerLog == nil {
		log, err := os.CreateTemp(t.TempDir(), "workers-*.log")
		if err != nil {
			t.Fatal(err)
		}
		o.WorkerLog = log
		t.Cleanup(func() {
			if t.Failed() {
				tail(t, log.Name())
			}
		})
	}
	s, err := stack.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func tail(t *testing.T, path string) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Log(err)
		return
	}
	t.Logf("the end of the workers' log:\n%s", content[max(0, len(content)-8000):])
}

// publisher is a broker that keeps book of what it has asked.
type publisher struct {
	t         *testing.T
	ctx       context.Context
	stack     *stack.Stack
	nc        *nats.Conn
	js        jetstream.JetStream
	subjects  events.Subjects
	published map[string]map[string]string
	acks      []jetstream.PubAckFuture
}

func newPublisher(t *testing.T, s *stack.Stack) *publisher {
	t.Helper()
	nc, err := nats.Connect(s.NATS.URL(), nats.MaxReconnects(-1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(256))
	if err != nil {
		t.Fatal(err)
	}
	subjects, err := events.NewSubjects("")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return &publisher{t: t, ctx: ctx, stack: s, nc: nc, js: js, subjects: subjects, published: map[string]map[string]string{}}
}

// publish publishes a provision; msgID "" is the one that the contract asks for.
func (p *publisher) publish(e events.Event, msgID string) {
	p.t.Helper()
	p.send(e, p.subjects.Provision(e.Provision.GlobalAccountID), msgID)
	if p.published[e.RuntimeID] == nil {
		p.published[e.RuntimeID] = map[string]string{}
	}
	p.published[e.RuntimeID][e.ID] = e.ReplySubject(p.subjects)
}

// deprovision publishes a deprovision; from here on its reply is the runtime's only one of interest.
func (p *publisher) deprovision(e events.Event) {
	p.t.Helper()
	p.send(e, p.subjects.Deprovision(e.Deprovision.GlobalAccountID), "")
	p.published[e.RuntimeID] = map[string]string{e.ID: e.ReplySubject(p.subjects)}
}

func (p *publisher) send(e events.Event, subject, msgID string) {
	p.t.Helper()
	data, err := events.EncodeEvent(e)
	if err != nil {
		p.t.Fatal(err)
	}
	if msgID == "" {
		msgID = string(e.Type) + "/" + e.ID
	}
	p.sendRaw(&nats.Msg{Subject: subject, Data: data, Header: nats.Header{
		"Content-Type": {events.ContentType}, "Nats-Msg-Id": {msgID},
	}})
}

func (p *publisher) sendRaw(msg *nats.Msg) {
	p.t.Helper()
	// A server beside many tests may take longer than the library's 200 ms.
	ack, err := p.js.PublishMsgAsync(msg, jetstream.WithStallWait(limit))
	if err != nil {
		p.t.Fatal(err)
	}
	p.acks = append(p.acks, ack)
}

// flush returns when the stream has everything.
func (p *publisher) flush() {
	p.t.Helper()
	for _, ack := range p.acks {
		select {
		case <-ack.Ok():
		case err := <-ack.Err():
			p.t.Fatal(err)
		case <-p.ctx.Done():
			p.t.Fatal("publishing takes too long")
		}
	}
	p.acks = nil
}

// awaitSettled returns when no event is left in the stream, and no request waits for Gardener.
// On a slow machine a request does for a while: it is answered as waiting, leaves the stream, and
// is served once Gardener answers.
func (p *publisher) awaitSettled() {
	p.t.Helper()
	p.awaitHandled()
	eventually(p.ctx, p.t, func() error {
		if left, err := p.left(events.StreamWaiting); err != nil || left == 0 {
			return err
		}
		_, waiting := p.byStatus()
		for _, r := range waiting {
			if r.Waiting.Reason == events.WaitingUnavailable {
				return fmt.Errorf("request %s still waits for Gardener", r.RequestID)
			}
		}
		return nil
	})
}

// awaitHandled returns when no event is left in the stream.
func (p *publisher) awaitHandled() {
	p.t.Helper()
	eventually(p.ctx, p.t, func() error {
		left, err := p.left(events.StreamEvents)
		if err == nil && left > 0 {
			err = fmt.Errorf("%d events are not settled", left)
		}
		return err
	})
}

// left is the number of messages in a stream.
func (p *publisher) left(stream string) (uint64, error) {
	s, err := p.js.Stream(p.ctx, stream)
	if err != nil {
		return 0, err
	}
	return s.CachedInfo().State.Msgs, nil
}

// eventually asks again until there is no error.
func eventually(ctx context.Context, t *testing.T, check func() error) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal(err)
		case <-tick.C:
		}
	}
}

func (p *publisher) facts() checker.Facts {
	p.t.Helper()
	facts, err := checker.Read(p.ctx, sources(p.t, p.stack, p.js, p.subjects))
	if err != nil {
		p.t.Fatal(err)
	}
	facts.Published = p.published
	return facts
}

// replies are those stored for a runtime's requests, in the order of the requests' ids.
func (p *publisher) replies(runtime string) []events.Reply {
	p.t.Helper()
	ledger := storage.NewLedger(p.js, p.subjects, "/integration")
	var out []events.Reply
	var ids []string
	for id := range p.published[runtime] {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		stored, found, err := ledger.Last(p.ctx, p.published[runtime][id])
		if err != nil {
			p.t.Fatal(err)
		}
		if found {
			out = append(out, stored.Reply)
		}
	}
	return out
}
