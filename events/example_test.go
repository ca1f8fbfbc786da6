package events_test

import (
	"fmt"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/contract"
)

// Any CloudEvents library can write the events; they look as follows.
func ExampleEncodeEvent() {
	data, err := events.EncodeEvent(events.Event{
		Type: events.TypeDeprovision, ID: "op-2", Source: "/kyma-environment-broker",
		Deprovision: &events.Deprovision{RuntimeID: "rt-1", GlobalAccountID: "ga-1"},
	})
	fmt.Println(string(data), err)
	// Output:
	// {"specversion":"1.0","id":"op-2","source":"/kyma-environment-broker","type":"hap.deprovision.v1","datacontenttype":"application/json","data":{"runtimeID":"rt-1","globalAccountID":"ga-1"}} <nil>
}

// The error of a message that cannot be processed names the invalid field, and the event has the
// addressee of the reply.
func ExampleDecode() {
	event, err := events.Decode("hap.v1.provision.ga-1", nil, []byte(`{
		"specversion": "1.0", "type": "hap.provision.v1", "source": "/keb", "id": "op-1",
		"data": {"runtimeID": "rt-1", "globalAccountID": "ga-1"}}`))
	fmt.Println(contract.CodeOf(err), err)
	fmt.Println(event.RuntimeID, event.ID)
	// Output:
	// InvalidEvent data.plan is missing; publish a corrected event under a new id
	// rt-1 op-1
}
