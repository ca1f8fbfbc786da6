package requests_test

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
)

func provision(id string) events.Event {
	return events.Event{Type: events.TypeProvision, ID: id, Source: "/keb", Provision: &events.Provision{
		RuntimeID: "rt-" + id, GlobalAccountID: "ga-1", Plan: "aws", PlatformRegion: "cf-eu11", HyperscalerRegion: "eu-central-1",
		ShootName: "c-3fa2", Cluster: &events.Cluster{Name: "c", Namespace: "n", Labels: map[string]string{"a": "b", "c": "d"}},
	}}
}

func assigned(id string) events.Reply {
	return events.Reply{
		RequestID: id, RuntimeID: "rt-" + id, Status: events.StatusAssigned, GlobalAccountID: "ga-1", Plan: "aws", Provider: "aws",
		Binding:  &events.Binding{Name: "aws-7", Namespace: "garden-kyma", Kind: "CredentialsBinding", HyperscalerType: "aws", Claimed: true, Generation: 3},
		Decision: &events.Decision{Sequence: 4711, Rule: "aws", RuleNumber: 1, Pool: "aws", LabelSelector: "hyperscalerType=aws"},
	}
}

func waiting(id string) events.Reply {
	return events.Reply{RequestID: id, RuntimeID: "rt-" + id, Status: events.StatusWaiting,
		Waiting: &events.Waiting{Reason: events.WaitingPoolEmpty, Position: 1}}
}

func rejected(id string, code engine.Code) events.Reply {
	return events.Reply{RequestID: id, RuntimeID: "rt-" + id, Status: events.StatusRejected,
		Error: &events.ReplyError{Code: code, Message: "no", Retryable: code.Retryable()}}
}

func replySubject(t testing.TB, id string) string { return subjects(t).Reply("rt-"+id, id) }

func store(t testing.TB, ledger *events.Ledger, r events.Reply, expected uint64) uint64 {
	t.Helper()
	sequence, err := ledger.Publish(within(t), subjects(t).Reply(r.RuntimeID, r.RequestID), r, expected)
	if err != nil {
		t.Fatal(err)
	}
	return sequence
}

func config(t *testing.T, js jetstream.JetStream, name string) jetstream.StreamConfig {
	t.Helper()
	stream, err := js.Stream(within(t), name)
	if err != nil {
		t.Fatal(err)
	}
	return stream.CachedInfo().Config
}
