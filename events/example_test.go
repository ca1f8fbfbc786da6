package events_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
)

// KEB asks for an account before it creates a Shoot, and applies the patch that it
// gets. The request id is the operation's, so that a KEB that was restarted asks
// again and gets the same answer.
func ExampleClient_Provision() {
	nc, err := nats.Connect("nats://nats.nats:4222", nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true))
	if err != nil {
		log.Print(err)
		return
	}
	defer nc.Close()
	client, err := events.NewClient(nc, events.ClientOptions{Source: "/kyma-environment-broker"})
	if err != nil {
		log.Print(err)
		return
	}
	defer client.Close()

	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	reply, err := client.Provision(ctx, "b3c1a5e2-operation", events.Provision{
		RuntimeID: "4a1f3c52-runtime", GlobalAccountID: "8cd57dc2-tenant",
		Plan: "aws", PlatformRegion: "cf-eu11", HyperscalerRegion: "eu-central-1", ShootName: "c-3fa2b1c",
	}, events.OnWaiting(func(r events.Reply) {
		log.Printf("waiting at place %d: %s", r.Waiting.Position, r.Waiting.Reason)
	}))
	switch {
	case engine.CodeOf(err) == engine.CodePoolExhausted:
		log.Print("no account is left; try again later, under a new id")
	case err != nil:
		log.Print(err)
	default:
		log.Printf("the Shoot is merged with %v", reply.ShootMergePatch)
	}
}

// A rejection carries the whole reply.
func ExampleRejected() {
	err := error(&events.Rejected{Reply: events.Reply{
		RequestID: "b3c1a5e2-operation", Status: events.StatusRejected,
		Error: &events.ReplyError{Code: engine.CodePoolExhausted, Message: "pool aws has no account left", Retryable: true},
	}})
	if rejected, ok := errors.AsType[*events.Rejected](err); ok {
		fmt.Println(rejected.Reply.Error.Code, rejected.Retryable())
	}
	fmt.Println(err)
	// Output:
	// PoolExhausted true
	// request b3c1a5e2-operation is rejected: PoolExhausted: pool aws has no account left
}

// Any CloudEvents library can write the events; this is what they look like.
func ExampleEncodeEvent() {
	data, err := events.EncodeEvent(events.Event{
		Type: events.TypeDeprovision, ID: "op-2", Source: "/kyma-environment-broker",
		Deprovision: &events.Deprovision{RuntimeID: "rt-1", GlobalAccountID: "ga-1"},
	})
	fmt.Println(string(data), err)
	// Output:
	// {"specversion":"1.0","id":"op-2","source":"/kyma-environment-broker","type":"hap.deprovision.v1","datacontenttype":"application/json","data":{"runtimeID":"rt-1","globalAccountID":"ga-1"}} <nil>
}

// A message that cannot be processed says which field is at fault, and whom to tell.
func ExampleDecode() {
	event, err := events.Decode("hap.v1.provision.ga-1", nil, []byte(`{
		"specversion": "1.0", "type": "hap.provision.v1", "source": "/keb", "id": "op-1",
		"data": {"runtimeID": "rt-1", "globalAccountID": "ga-1"}}`))
	fmt.Println(engine.CodeOf(err), err)
	fmt.Println(event.RuntimeID, event.ID)
	// Output:
	// InvalidEvent data.plan is missing; publish a corrected event under a new id
	// rt-1 op-1
}
