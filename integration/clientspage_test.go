package integration_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hap-worker/hap-worker/cmd/daemon"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

// TestNATSCommandOfTheClientsPage runs the recipes of docs/clients.md for the nats command as
// they stand there: the stream has the event, a worker answers it, and the answer is printed.
// Run again, as after a lost acknowledgement, they have the same answer.
func TestNATSCommandOfTheClientsPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/clients.md")
	if err != nil {
		t.Fatal(err)
	}
	event, recipe := fencedBlock(t, page, "json"), fencedBlock(t, page, "sh")
	publish, read, found := strings.Cut(recipe, "\nnats stream get ")
	if !found || !strings.HasPrefix(publish, "nats request ") {
		t.Fatalf("the recipes are\n%s", recipe)
	}
	pinned, err := os.ReadFile("natscommand/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`github\.com/nats-io/natscli (v\S+)`).FindSubmatch(pinned)
	if version == nil || !strings.Contains(string(page), "github.com/nats-io/natscli/nats@"+string(version[1])+"`") {
		t.Errorf("the page has another version of the command than %s", version)
	}
	bin, dir := buildNATSCommand(t), t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "event.json"), []byte(event), 0o600); err != nil {
		t.Fatal(err)
	}
	l := newLandscape(t, oneAccountRules, accounts("aws", 1))
	l.work(daemon.Options{})
	shell := func(line string) string {
		t.Helper()
		c := exec.CommandContext(l.ctx, "sh", "-e", "-c", line)
		c.Dir = dir
		c.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "NATS_URL="+l.stack.NATS.URL(), "HOME="+dir, "XDG_CONFIG_HOME="+dir)
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
		return string(out)
	}
	var e struct {
		ID   string                     `json:"id"`
		Data struct{ RuntimeID string } `json:"data"`
	}
	if err := json.Unmarshal([]byte(event), &e); err != nil {
		t.Fatal(err)
	}
	ledger, answers := storage.NewLedger(l.js, l.subjects, "/test"), map[string]bool{}
	for _, acknowledged := range []string{`"stream":"HAP_EVENTS"`, `"duplicate":true`} {
		if out := shell(publish); !strings.Contains(strings.ReplaceAll(out, " ", ""), acknowledged) {
			t.Errorf("the acknowledgement has no %s:\n%s", acknowledged, out)
		}
		eventually(l.ctx, t, func() error {
			stored, _, err := ledger.Last(l.ctx, l.subjects.Reply(e.Data.RuntimeID, e.ID))
			if err == nil && stored.Reply.Status != events.StatusAssigned {
				err = fmt.Errorf("the answer is %q", stored.Reply.Status)
			}
			return err
		})
		out := shell("nats stream get " + read)
		if !strings.Contains(out, `"status":"assigned"`) || !strings.Contains(out, `"name":"aws-`) {
			t.Errorf("the answer is printed as\n%s", out)
		}
		answers[regexp.MustCompile(`(?m)^\{.*`).FindString(out)] = true // below times of the reading
	}
	if len(answers) != 1 {
		t.Errorf("run twice, the recipes have the answers %v", answers)
	}
}

// fencedBlock is the one block of a page in a language.
func fencedBlock(t *testing.T, page []byte, language string) string {
	t.Helper()
	blocks := regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllSubmatch(page, -1)
	if len(blocks) != 1 {
		t.Fatalf("%d blocks of %s", len(blocks), language)
	}
	return string(blocks[0][1])
}

// buildNATSCommand returns a folder with the nats command, in the version of natscommand.
func buildNATSCommand(t *testing.T) string {
	t.Helper()
	bin := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	build := exec.CommandContext(ctx, "go", "build", "-o", bin, "github.com/nats-io/natscli/nats")
	build.Dir = "natscommand"
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the nats command: %v\n%s", err, out)
	}
	return bin
}
