package events_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/events/contract"
	"github.com/hap-worker/hap-worker/events/eventstest"
)

// typesInOrder are the types of the table.
func typesInOrder() []events.Type {
	var all []events.Type
	for _, info := range events.Types() {
		all = append(all, info.Type)
	}
	return all
}

// Every constant of type Type has its row. Every constant of type Status is in the table, or answers
// no particular type.
func TestTheTableHasEveryType(t *testing.T) {
	t.Parallel()
	var statuses []string
	for _, info := range events.Types() {
		for _, status := range info.Statuses() {
			statuses = append(statuses, string(status))
		}
	}
	statuses = append(statuses, string(events.StatusSealed))
	slices.Sort(statuses)
	for kind, have := range map[string][]string{"Type": texts(typesInOrder()), "Status": slices.Compact(statuses)} {
		declared := declared(t, kind)
		slices.Sort(have)
		if !slices.Equal(have, declared) {
			t.Errorf("%s: the table has %v, the package declares %v", kind, have, declared)
		}
	}
}

func texts[Text ~string](all []Text) []string {
	out := make([]string, len(all))
	for i, text := range all {
		out[i] = string(text)
	}
	return out
}

// declared are the values of all constants of a type, as the source has them, sorted.
func declared(t *testing.T, kind string) []string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, file := range files {
		source, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(source, func(n ast.Node) bool {
			spec, is := n.(*ast.ValueSpec)
			if !is {
				return true
			}
			if of, is := spec.Type.(*ast.Ident); !is || of.Name != kind {
				return true
			}
			for _, value := range spec.Values {
				text, err := strconv.Unquote(value.(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				found = append(found, text)
			}
			return true
		})
	}
	if len(found) < 4 {
		t.Fatalf("only %v were found", found)
	}
	slices.Sort(found)
	return found
}

// What is beside the table names every type: the schemas, the errors in which every event may end, and the
// examples with which the schemas are tested.
func TestEveryTypeIsKnownOutside(t *testing.T) {
	t.Parallel()
	envelope := string(schemaText(t, "envelope"))
	for _, info := range events.Types() {
		name := string(info.Type)
		for _, want := range []string{strconv.Quote(info.Type.CloudEvent()), strconv.Quote(name + ".json")} {
			if !strings.Contains(envelope, want) {
				t.Errorf("schema/envelope.json lacks %s", want)
			}
		}
		if schemaText(t, name); eventstest.Full[name] == "" {
			t.Errorf("the schema of %s is not tried", name)
		}
		if answers := contract.CodeInvalidEvent.Info().Answers; !slices.Contains(answers, name) {
			t.Errorf("InvalidEvent answers %v, not %s", answers, name)
		}
	}
	for _, info := range contract.Codes() {
		for _, name := range info.Answers {
			if events.Type(name).Info().Type == "" {
				t.Errorf("%s answers %q, which is no type of event", info.Code, name)
			}
		}
	}
	reply := string(schemaText(t, "reply"))
	for _, status := range declared(t, "Status") {
		if !strings.Contains(reply, strconv.Quote(status)) || !regexp.MustCompile(`[(|]`+status+`[)|]`).MatchString(envelope) {
			t.Errorf("the schemas lack the status %s", status)
		}
	}
}

func schemaText(t *testing.T, name string) []byte {
	t.Helper()
	text, err := events.Schemas.ReadFile("schema/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// The parts of a row agree with what the package does with an event of the type.
func TestNewEventHasThePayloadOfItsType(t *testing.T) {
	t.Parallel()
	s, err := events.NewSubjects("")
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range typesInOrder() {
		e, data, ok := events.NewEvent(kind)
		if !ok || data == nil || e.Type != kind {
			t.Fatalf("%s: %+v, %v", kind, e, data)
		}
		other, _, _ := events.NewEvent(kind)
		if other == e {
			t.Errorf("%s: two events share a payload", kind)
		}
		if _, err := events.EncodeEvent(events.Event{Type: kind, ID: "1", Source: "/s"}); err == nil {
			t.Errorf("%s is written without a payload", kind)
		}
		if !slices.Contains(s.Events(), "hap.v1."+string(kind)+".*") || s.Dead(kind) != "hap.v1.dead."+string(kind) {
			t.Errorf("%s has no subject", kind)
		}
		for _, status := range events.Types() {
			want := status.Type == kind
			if got := (events.Reply{Status: status.Answer}).Answers(e); got != want {
				t.Errorf("%s answers a %s: %t", status.Answer, kind, got)
			}
		}
	}
	if _, _, ok := events.NewEvent("reboot"); ok {
		t.Error("an unknown type has a payload")
	}
}

// A shadow compares decisions on provisions only. All replies name the tenant of their event, also to a resolve and a
// deprovision.
func TestComparable(t *testing.T) {
	t.Parallel()
	of := events.Reply{RuntimeID: "rt", GlobalAccountID: "ga"}
	provision, superseded := of, of
	provision.Plan, superseded.Plan, superseded.Error = "aws", "aws", &events.ReplyError{Code: contract.CodeSuperseded}
	for _, c := range []struct {
		name   string
		reply  events.Reply
		status events.Status
		want   bool
	}{
		{"assigned", provision, events.StatusAssigned, true},
		{"waiting", provision, events.StatusWaiting, true},
		{"rejected", provision, events.StatusRejected, true},
		{"a runtime that was gone", superseded, events.StatusRejected, false},
		{"a rejected resolve or deprovision", of, events.StatusRejected, false},
		{"resolved", of, events.StatusResolved, false},
		{"released", of, events.StatusReleased, false},
	} {
		c.reply.Status = c.status
		if got := c.reply.Comparable(); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}
