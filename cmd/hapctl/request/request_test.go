package request

import (
	"bytes"
	"strings"
	"testing"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
)

// TestAgain: the line that asks again asks the same server, and shows no password.
func TestAgain(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"--nats-url nats://far:4222 --runtime rt-1 --timeout 3s -o json": "hapctl provision --nats-url nats://far:4222 --runtime rt-1 --id req-1",
		"--config prod.yaml --runtime rt-1 --label a=b --label c=d":      "hapctl provision --config prod.yaml --label 'a=b' --label 'c=d' --runtime rt-1 --id req-1",
		"--nats-url nats://a:1,nats://b:2 --runtime rt-1":                "hapctl provision --nats-url 'nats://a:1,nats://b:2' --runtime rt-1 --id req-1",
		"--nats-url nats://me:word@far:4222 --runtime rt-1":              "hapctl provision --runtime rt-1 --id req-1",
		"--nats-url nats://a:1,nats://me:word@b:2 --runtime rt-1":        "hapctl provision --runtime rt-1 --id req-1",
		"--nats-url nats://me:wo%rd@far:4222 --runtime rt-1":             "hapctl provision --runtime rt-1 --id req-1",
	} {
		s := cli.New(strings.NewReader(""), &bytes.Buffer{}, &bytes.Buffer{})
		cmd := NewProvision(s)
		root := cli.Group("hapctl COMMAND", "", cmd)
		s.Flags(root)
		if err := cmd.ParseFlags(strings.Fields(given)); err != nil {
			t.Fatal(err)
		}
		if got := again(cmd, "req-1"); got != want {
			t.Errorf("%s: %s, want %s", given, got, want)
		}
	}
}

// TestFinalOfAnotherRequest: the stored reply to another tenant's request is not shown, whatever its status; one to
// another kind of request is, with an error.
func TestFinalOfAnotherRequest(t *testing.T) {
	t.Parallel()
	asked := events.Event{Type: events.TypeProvision, ID: "req", Provision: &events.Provision{RuntimeID: "rt", GlobalAccountID: "ga-2"}}
	rejected := &events.ReplyError{Code: engine.CodePoolExhausted}
	for _, c := range []struct {
		reply events.Reply
		code  int
		shown bool
	}{
		{events.Reply{Status: events.StatusAssigned, GlobalAccountID: "ga-2"}, cli.ExitDone, true},
		{events.Reply{Status: events.StatusAssigned, GlobalAccountID: "ga-1"}, cli.ExitConflict, false},
		{events.Reply{Status: events.StatusRejected, GlobalAccountID: "ga-1", Error: rejected}, cli.ExitConflict, false},
		{events.Reply{Status: events.StatusReleased, GlobalAccountID: "ga-2"}, cli.ExitConflict, true},
	} {
		v, err := Final(asked, c.reply)
		if cli.ExitCode(err) != c.code || (v != nil) != c.shown {
			t.Errorf("%+v: exit %d with %v, %v", c.reply, cli.ExitCode(err), v, err)
		}
	}
}
