package wire_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/contract"
)

// The scenarios say what becomes of a message: the event that it is, or the error
// and what was read nevertheless. `-rewrite` writes them anew.
func TestDecode(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata/decode", func(t *testing.T, path string) {
		t.Parallel()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var subject string
			header := nats.Header{}
			message := d.Input
			for _, arg := range d.CmdArgs {
				switch value := strings.Join(arg.Vals, ","); arg.Key {
				case "subject":
					subject = value
				case "pad": // to that many bytes in all
					var size int
					d.ScanArgs(t, "pad", &size)
					message += strings.Repeat(" ", size-len(message))
				default:
					header[arg.Key] = []string{value}
				}
			}
			event, err := events.Decode(subject, header, []byte(message))
			return describe(t, event, err)
		})
	})
}

func describe(t *testing.T, e events.Event, err error) string {
	t.Helper()
	var b strings.Builder
	if err != nil {
		if code := contract.CodeOf(err); code != contract.CodeInvalidEvent {
			t.Fatalf("the code of %v is %s", err, code)
		}
		text, ok := strings.CutSuffix(err.Error(), "; publish a corrected event under a new id")
		if !ok {
			t.Fatalf("%v does not say what to do", err)
		}
		fmt.Fprintf(&b, "error: %s\nread:", text)
	} else {
		fmt.Fprintf(&b, "event:")
	}
	for _, field := range []struct{ name, value string }{
		{"type", string(e.Type)}, {"id", e.ID}, {"source", e.Source}, {"runtime", e.RuntimeID}, {"binding", e.Binding},
		{"replyTo", e.ReplyTo}, {"traceparent", e.Traceparent}, {"tracestate", e.Tracestate}, {"replayof", e.ReplayOf},
	} {
		if field.value != "" {
			fmt.Fprintf(&b, " %s=%s", field.name, field.value)
		}
	}
	b.WriteByte('\n')
	if err != nil {
		return b.String()
	}
	for _, payload := range []any{e.Provision, e.Deprovision, e.Release, e.Resolve} {
		if text := mustJSON(t, payload); text != "null" {
			fmt.Fprintln(&b, text)
		}
	}
	return b.String()
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
