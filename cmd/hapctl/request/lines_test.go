package request

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/ledgertest"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

// TestLinesInOrder: requests of a file are in flight together, and although the
// last ones are answered first, the results come in the order of the lines.
func TestLinesInOrder(t *testing.T) {
	t.Parallel()
	const requests, batch = inFlight, inFlight / 2
	server := ledgertest.Server(t)
	answerBackwards(t, server.URL(), requests, batch)
	var in strings.Builder
	for i := range requests {
		fmt.Fprintf(&in, `{"runtimeID":"rt-%d","globalAccountID":"ga-1","plan":"aws","id":"req-%d"}`+"\n", i, i)
	}
	var out, talk bytes.Buffer
	args := []string{"provision", "-f", "-", "--nats-url", server.URL(), "--timeout", "30s"}
	s := cli.New(strings.NewReader(in.String()), &out, &talk)
	root := cli.Group("hapctl COMMAND", "", NewProvision(s))
	s.Flags(root)
	if code := s.Run(t.Context(), root, args); code != cli.ExitNothing {
		t.Fatalf("exit code %d, want %d: the worst line is PoolExhausted\n%s", code, cli.ExitNothing, talk.String())
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != requests {
		t.Fatalf("%d results for %d requests", len(lines), requests)
	}
	for i, line := range lines {
		var reply events.Reply
		if err := json.Unmarshal([]byte(line), &reply); err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("req-%d", i); reply.RequestID != want {
			t.Fatalf("result %d is that of %s", i, reply.RequestID)
		}
	}
}

// answerBackwards is a worker that takes a whole batch and then answers it, the last request first. It
// rejects one request.
func answerBackwards(t *testing.T, url string, requests, batch int) {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := storage.Setup(t.Context(), js, storage.Options{Manage: true}); err != nil {
		t.Fatal(err)
	}
	consumer, err := js.Consumer(t.Context(), events.StreamEvents, events.ConsumerWorker)
	if err != nil {
		t.Fatal(err)
	}
	subjects, err := events.NewSubjects("")
	if err != nil {
		t.Fatal(err)
	}
	ledger := storage.NewLedger(js, subjects, "/test")
	done := make(chan error, 1)
	ctx := context.WithoutCancel(t.Context()) // the last answer arrives before its storing is acknowledged
	go func() {
		for n := 0; n < requests; n += batch {
			if err := answerBatch(ctx, consumer, ledger, subjects, batch); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	t.Cleanup(func() {
		if err := <-done; err != nil {
			t.Error(err)
		}
		nc.Close()
	})
}

func answerBatch(ctx context.Context, c jetstream.Consumer, ledger *storage.Ledger, s events.Subjects, size int) error {
	var taken []jetstream.Msg
	for len(taken) < size {
		messages, err := c.Fetch(size-len(taken), jetstream.FetchMaxWait(20*time.Second))
		if err != nil {
			return err
		}
		before := len(taken)
		for msg := range messages.Messages() {
			taken = append(taken, msg)
		}
		if len(taken) == before {
			return fmt.Errorf("only %d requests are in flight, not %d", before, size)
		}
	}
	for _, msg := range slices.Backward(taken) {
		e, err := events.Decode(msg.Subject(), msg.Headers(), msg.Data())
		if err != nil {
			return err
		}
		r := events.Reply{RequestID: e.ID, RuntimeID: e.RuntimeID, Status: events.StatusAssigned, Binding: &events.Binding{Name: "aws-1"}}
		if e.ID == "req-7" {
			r.Status, r.Error = events.StatusRejected, &events.ReplyError{Code: engine.CodePoolExhausted, Message: "none is left"}
		}
		if _, err := ledger.Publish(ctx, e.ReplySubject(s), r, 0); err != nil {
			return err
		}
		if err := msg.Ack(); err != nil {
			return err
		}
	}
	return nil
}

// TestAgainRepeatsEachValue: the command that repeats a request has every value of a repeated flag, quoted
// for a shell.
func TestAgainRepeatsEachValue(t *testing.T) {
	t.Parallel()
	cmd := NewProvision(cli.New(strings.NewReader(""), io.Discard, io.Discard))
	if err := cmd.ParseFlags([]string{"--purpose", "mcp", "--purpose", "two words", "--label", "b=2", "--label", "a=1,2"}); err != nil {
		t.Fatal(err)
	}
	if got, want := again(cmd, "req-1"), "provision --label 'a=1,2' --label 'b=2' --purpose mcp --purpose 'two words' --id req-1"; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}
