package cli

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/cmd/hapctl/clitest"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/ledgertest"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

// TestReading: a long read shows its progress in one line, which is cleared at the end; a short one shows
// nothing.
func TestReading(t *testing.T) {
	t.Setenv("TERM", "xterm")
	screen, tty := clitest.OpenTerminal(t)
	s := &Shell{Stderr: Stream{tty}}
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	r := &reading{shell: s, after: readingAfter, now: func() time.Time { return at }}
	for _, step := range []struct {
		stream    string
		after     time.Duration
		read, all uint64
	}{
		{"SHORT", 0, 1, 10}, {"SHORT", readingAfter - 1, 9, 10}, {"SHORT", 0, 10, 10},
		{"LONG", 0, 1, 4000}, {"LONG", time.Second, 1000, 4000}, {"LONG", DrawEvery - 1, 1001, 4000},
		{"OTHER", time.Second, 5, 10}, {"OTHER", 0, 10, 10},
		{"LONG", time.Second, 2000, 4000}, {"LONG", time.Second, 4000, 4000},
	} {
		at = at.Add(step.after)
		r.told(step.stream, step.read, step.all)
	}
	s.Say("done")
	const want = "\r\x1b[Khapctl: reading LONG: 1000 of 4000, 3s left" + "\r\x1b[Khapctl: reading LONG: 2000 of 4000, 3s left" + "\r\x1b[Khapctl: done\r\n"
	if got := clitest.Until(t, screen, "hapctl: done\r\n"); got != want {
		t.Errorf("the terminal shows\n%q, want\n%q", got, want)
	}
}

// TestReadingsOfStreams: every way to read a stream reports each message and ends at the total. Without a
// terminal, none reports anything.
func TestReadingsOfStreams(t *testing.T) {
	var talk bytes.Buffer
	plain := &Shell{Stderr: Stream{&talk}}
	if ctx := plain.Watched(t.Context()); ctx != t.Context() {
		t.Error("without a terminal a reading is watched")
	}
	t.Setenv("TERM", "xterm")
	screen, tty := clitest.OpenTerminal(t)
	s := &Shell{Stderr: Stream{tty}}
	js, subjects := ledgertest.Server(t).JetStream(), ledgertest.Subjects(t)
	if _, err := storage.Setup(t.Context(), js, storage.Options{Manage: true}); err != nil {
		t.Fatal(err)
	}
	ledger := storage.NewLedger(js, subjects, "/test")
	store := func(runtime string) {
		if _, err := ledger.Publish(t.Context(), subjects.Reply(runtime, "q-1"), events.Reply{RuntimeID: runtime, RequestID: "q-1", Status: events.StatusAssigned, GlobalAccountID: "ga-1"}, 0); err != nil {
			t.Fatal(err)
		}
	}
	for _, runtime := range []string{"rt-1", "rt-2", "rt-3", "rt-4"} {
		store(runtime)
	}
	moment := time.Now() // each message is a second later
	r := &reading{shell: s, now: func() time.Time { moment = moment.Add(time.Second); return moment }}
	ctx := watchedBy(t.Context(), r)
	if err := ledger.Each(ctx, func(events.Stored) error { return nil }); err != nil {
		t.Fatal(err)
	}
	s.Say("walked")
	const walked = "\r\x1b[Khapctl: reading HAP_REPLIES: 1 of 4, 0s left" + "\r\x1b[Khapctl: reading HAP_REPLIES: 2 of 4, 1s left" +
		"\r\x1b[Khapctl: reading HAP_REPLIES: 3 of 4, 1s left" + "\r\x1b[Khapctl: walked\r\n"
	if got := clitest.Until(t, screen, "hapctl: walked\r\n"); got != walked {
		t.Errorf("a walk shows\n%q, want\n%q", got, walked)
	}
	fails := os.ErrClosed
	_, err := ledger.OfTenant(ctx, "ga-1", time.Time{}, 3, func(stored events.Stored) error {
		if stored.Sequence == 4 {
			return fails
		}
		return nil
	})
	s.Say("%v", err)
	// The first of the three is read before it is known how many there are.
	if got := clitest.Until(t, screen, "closed\r\n"); !strings.HasPrefix(got, "\r\x1b[Khapctl: reading HAP_REPLIES: 1 of 3, ") || !strings.HasSuffix(got, " left\r\x1b[Khapctl: file already closed\r\n") {
		t.Errorf("a reading that fails shows\n%q", got)
	}
}
