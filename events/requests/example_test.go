package requests_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/contract"
	"github.com/hap-worker/hap-worker/events/requests"
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
	client, err := requests.NewClient(nc, requests.ClientOptions{Source: "/kyma-environment-broker"})
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
	}, requests.OnWaiting(func(r events.Reply) {
		log.Printf("waiting at place %d: %s", r.Waiting.Position, r.Waiting.Reason)
	}))
	switch {
	case contract.CodeOf(err) == contract.CodePoolExhausted:
		log.Print("no account is left; try again later, under a new id")
	case err != nil:
		log.Print(err)
	default:
		log.Printf("the Shoot is merged with %v", reply.ShootMergePatch)
	}
}

// A rejection carries the whole reply.
func ExampleRejected() {
	err := error(&requests.Rejected{Reply: events.Reply{
		RequestID: "b3c1a5e2-operation", Status: events.StatusRejected,
		Error: &events.ReplyError{Code: contract.CodePoolExhausted, Message: "pool aws has no account left", Retryable: true},
	}})
	if rejected, ok := errors.AsType[*requests.Rejected](err); ok {
		fmt.Println(rejected.Reply.Error.Code, rejected.Retryable())
	}
	fmt.Println(err)
	// Output:
	// PoolExhausted true
	// request b3c1a5e2-operation is rejected: PoolExhausted: pool aws has no account left
}
