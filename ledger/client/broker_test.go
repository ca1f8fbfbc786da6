package client_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/propagation"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/contract"
	"github.com/hap-worker/hap-worker/events/requests"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

// operation is a row in the broker's database. Its id is the request id.
type operation struct {
	provision events.Provision
	waiting   events.WaitingReason // shown to the user while the request waits
	patch     map[string]any       // merged into the Shoot once the request is assigned
	failed    *events.ReplyError
}

// broker asks for an account before it creates a Shoot.
type broker struct {
	client     *requests.Client
	operations map[string]*operation // by id
}

// step continues an operation. Call it again after an error and after a restart: every call under the
// same id gets the same answer.
func (b *broker) step(ctx context.Context, id string) error {
	o := b.operations[id]
	reply, err := b.client.Provision(ctx, id, o.provision, requests.OnWaiting(func(r events.Reply) {
		o.waiting = r.Waiting.Reason
	}))
	if rejected, ok := errors.AsType[*requests.Rejected](err); ok {
		o.failed = rejected.Reply.Error // final: if it is retryable, ask later under a new id
		return nil
	}
	if err != nil {
		return err // no answer yet
	}
	o.patch = reply.ShootMergePatch
	return nil
}

// traceOf is ClientOptions.Trace of a broker that uses OpenTelemetry: the worker's spans then belong to the trace of
// the operation.
func traceOf(ctx context.Context) (traceparent, tracestate string) {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier["traceparent"], carrier["tracestate"]
}

// A request that is published within a span has its trace; one without a span has none.
func TestBrokerTrace(t *testing.T) {
	t.Parallel()
	const want = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	ctx := propagation.TraceContext{}.Extract(t.Context(), propagation.MapCarrier{"traceparent": want, "tracestate": "a=b"})
	if parent, state := traceOf(ctx); parent != want || state != "a=b" {
		t.Errorf("%q, %q", parent, state)
	}
	if parent, state := traceOf(t.Context()); parent != "" || state != "" {
		t.Errorf("%q, %q without a span", parent, state)
	}
}

// A broker is restarted while its request waits, and gets the answer that was stored meanwhile. A
// request that is rejected for lack of accounts is asked again under a new id.
func TestBroker(t *testing.T) {
	t.Parallel()
	srv, js := setup(t)
	operations, stored := map[string]*operation{}, make(chan uint64, 3)
	for _, id := range []string{"op-1", "op-2", "op-3"} {
		operations[id] = &operation{provision: *provision(id).Provision}
	}
	answer(t, js, func(ctx context.Context, ledger *storage.Ledger, e events.Event) error {
		r := map[string]events.Reply{"op-1": waiting("op-1"), "op-2": rejected("op-2", contract.CodePoolExhausted), "op-3": assigned("op-3")}[e.ID]
		sequence, err := ledger.Publish(ctx, e.ReplySubject(subjects(t)), r, 0)
		stored <- sequence
		return err
	})

	ctx, restart := context.WithCancel(within(t))
	first := &broker{client: client(t, srv.Connect()), operations: operations}
	asked := make(chan error)
	go func() { asked <- first.step(ctx, "op-1") }()
	waits := <-stored
	restart()
	if err := <-asked; !errors.Is(err, context.Canceled) {
		t.Fatalf("the broker that ends while its request waits: %v", err)
	}
	first.client.Close()
	store(t, storage.NewLedger(js, subjects(t), "/hap-worker"), assigned("op-1"), waits)

	second := &broker{client: client(t, srv.Connect()), operations: operations}
	for _, id := range []string{"op-1", "op-2", "op-3"} {
		if err := second.step(within(t), id); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
	if operations["op-1"].patch == nil || operations["op-3"].patch == nil {
		t.Errorf("no patch: %+v, %+v", operations["op-1"], operations["op-3"])
	}
	if failed := operations["op-2"].failed; failed == nil || failed.Code != contract.CodePoolExhausted || !failed.Retryable {
		t.Errorf("%+v", failed)
	}
}

// The page shows the broker of this file.
func TestGoOfTheClientsPage(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile("broker_test.go")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/clients.md")
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(string(file), "\n)\n\n")
	code, _, _ = strings.Cut(code, "\n// A request that is published within a span")
	if !strings.Contains(string(page), "```go\n"+code+"```\n") {
		t.Errorf("docs/clients.md does not show:\n%s", code)
	}
}
