package integration_test

import (
	"context"
	"fmt"
	"io"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/cmd/daemon"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/requests"
	"github.com/hap-worker/hap-worker/integration/stack"
)

// BenchmarkWholePath is a provision from its publish to its stored reply, through
// NATS, one worker in this process, Redis and, where the account is new, the
// Kubernetes API. All of them share this machine. The allocations are those of
// publisher and worker together.
func BenchmarkWholePath(b *testing.B) {
	const tenants = 50
	s, err := stack.Start(b.Context(), stack.Options{Gardener: stack.CRDGardener, Config: []byte(oneAccountRules), Accounts: roomyAccounts(tenants), Talk: io.Discard})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Stop() })
	ctx, stop := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- daemon.Run(ctx, daemon.Options{ConfigPath: s.Config, Env: []string{"HAP_TELEMETRY_LISTEN=127.0.0.1:0", "HAP_TELEMETRY_LOGLEVEL=error"}, Log: io.Discard})
	}()
	b.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	})
	loop := newLoop(b, s)
	// Every tenant gets its account before anything is measured. The client waits
	// for the streams, which the worker sets up.
	for n := range tenants {
		p := loop.provision("warm", n, tenants)
		if _, err := loop.client.Provision(b.Context(), "q-"+p.RuntimeID, p); err != nil {
			b.Fatal(err)
		}
	}

	b.Run("steady", func(b *testing.B) {
		b.ReportAllocs()
		loop.run(b, fmt.Sprintf("steady-%d", b.N), b.N, tenants)
	})
	b.Run("one at a time", func(b *testing.B) {
		b.ReportAllocs()
		loop.oneByOne(b, fmt.Sprintf("single-%d", b.N), tenants)
	})
}

// loop publishes provisions and counts their final replies.
type loop struct {
	js       jetstream.JetStream
	subjects events.Subjects
	client   *requests.Client
	round    int
}

func newLoop(b *testing.B, s *stack.Stack) *loop {
	b.Helper()
	nc, err := nats.Connect(s.NATS.URL())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(nc.Close)
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(256))
	if err != nil {
		b.Fatal(err)
	}
	subjects, err := events.NewSubjects("")
	if err != nil {
		b.Fatal(err)
	}
	client, err := requests.NewClient(nc, requests.ClientOptions{Source: "/bench"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(client.Close)
	return &loop{js: js, subjects: subjects, client: client}
}

func (l *loop) provision(name string, n, tenants int) events.Provision {
	return events.Provision{
		RuntimeID: fmt.Sprintf("%s-%d-%d", name, l.round, n), GlobalAccountID: fmt.Sprintf("ga-%d", n%tenants), Plan: "aws",
	}
}

// run publishes n provisions as fast as the stream takes them, and returns when
// each has its final reply.
func (l *loop) run(b *testing.B, name string, n, tenants int) {
	b.Helper()
	l.round++
	ctx := b.Context()
	replies, err := l.js.OrderedConsumer(ctx, events.StreamReplies, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{l.subjects.Replies()}, DeliverPolicy: jetstream.DeliverNewPolicy, HeadersOnly: true,
	})
	if err != nil {
		b.Fatal(err)
	}
	var all sync.WaitGroup
	all.Add(n)
	consuming, err := replies.Consume(func(jetstream.Msg) { all.Done() })
	if err != nil {
		b.Fatal(err)
	}
	defer consuming.Stop()
	b.ResetTimer()
	for i := range n {
		p := l.provision(name, i, tenants)
		e := events.Event{Type: events.TypeProvision, ID: "q-" + p.RuntimeID, Source: "/bench", RuntimeID: p.RuntimeID, Provision: &p}
		data, err := events.EncodeEvent(e)
		if err != nil {
			b.Fatal(err)
		}
		_, err = l.js.PublishMsgAsync(&nats.Msg{Subject: l.subjects.Provision(p.GlobalAccountID), Data: data, Header: nats.Header{
			"Content-Type": {events.ContentType}, "Nats-Msg-Id": {"provision/" + e.ID},
		}})
		if err != nil {
			b.Fatal(err)
		}
	}
	all.Wait()
	b.StopTimer()
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "events/s")
}

// oneByOne asks and waits, as a broker with one request does: the time is that of an answer.
func (l *loop) oneByOne(b *testing.B, name string, tenants int) {
	b.Helper()
	l.round++
	b.ResetTimer()
	for i := range b.N {
		p := l.provision(name, i, tenants)
		if _, err := l.client.Provision(b.Context(), "q-"+p.RuntimeID, p); err != nil {
			b.Fatal(err)
		}
	}
}
