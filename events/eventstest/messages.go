// Package eventstest has messages for tests: those of this product, and those of a broker.
package eventstest

import (
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/contract"
)

// Provision returns a provision event of the runtime rt-<id>.
func Provision(id string) events.Event {
	return events.Event{Type: events.TypeProvision, ID: id, Source: "/keb", Provision: &events.Provision{
		RuntimeID: "rt-" + id, GlobalAccountID: "ga-1", Plan: "aws", PlatformRegion: "cf-eu11", HyperscalerRegion: "eu-central-1",
		ShootName: "c-3fa2", Cluster: &events.Cluster{Name: "c", Namespace: "n", Labels: map[string]string{"a": "b", "c": "d"}},
	}}
}

// Assigned returns a reply to Provision(id) that assigns an account.
func Assigned(id string) events.Reply {
	return events.Reply{
		RequestID: id, RuntimeID: "rt-" + id, Status: events.StatusAssigned, GlobalAccountID: "ga-1", Plan: "aws", Provider: "aws",
		Binding:  &events.Binding{Name: "aws-7", Namespace: "garden-kyma", Kind: "CredentialsBinding", HyperscalerType: "aws", Claimed: true, Generation: 3},
		Clusters: new(12), Limit: 180,
		Decision: &events.Decision{Sequence: 4711, Rule: "aws", RuleNumber: 1, Pool: "aws", LabelSelector: "hyperscalerType=aws",
			Considered: []events.Considered{{Binding: "aws-3", Clusters: 180, Verdict: "at-limit"}}},
		ShootPatch:      []events.PatchOperation{{Op: "add", Path: "/spec/credentialsBindingName", Value: "aws-7"}},
		ShootMergePatch: map[string]any{"spec": map[string]any{"credentialsBindingName": "aws-7"}},
	}
}

// Waiting returns a waiting reply to Provision(id).
func Waiting(id string) events.Reply {
	return events.Reply{RequestID: id, RuntimeID: "rt-" + id, Status: events.StatusWaiting,
		Waiting: &events.Waiting{Reason: events.WaitingPoolEmpty, Position: 1}}
}

// Rejected returns a reply to Provision(id) that rejects it.
func Rejected(id string, code contract.Code) events.Reply {
	return events.Reply{RequestID: id, RuntimeID: "rt-" + id, Status: events.StatusRejected,
		Error: &events.ReplyError{Code: code, Message: "no", Retryable: code.Retryable()}}
}
