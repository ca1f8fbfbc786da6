package inspect

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/cmd/hapctl/view"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/storage"
	past "github.com/hap-worker/hap-worker/worker/history"
)

var pastUntil = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// pastPools are two pools after some hours: in aws, three of five accounts were in use for a while;
// aws+shared has more clusters than fit the usual width of the axis.
func pastPools(plain bool) poolsPast {
	window := past.Back(cli.Day, plotSteps)
	o := past.NewOccupancy(func() time.Time { return pastUntil }, window)
	for i, f := range []storage.Fact{
		{Status: events.StatusAssigned, Claimed: true, Sequence: 1, Time: pastUntil.Add(-18 * time.Hour)},
		{Status: events.StatusAssigned, Claimed: true, Sequence: 2, Time: pastUntil.Add(-18 * time.Hour)},
		{Status: events.StatusAssigned, Sequence: 3, Time: pastUntil.Add(-12 * time.Hour)},
		{Status: events.StatusReturned, Time: pastUntil.Add(-6 * time.Hour)},
	} {
		f.Pool, f.Binding, f.RuntimeID = "aws", fmt.Sprint("aws-", i), fmt.Sprint("rt-", i)
		o.Take(f)
	}
	o.Take(storage.Fact{Pool: "aws+shared", Binding: "shared-1", Status: events.StatusAssigned, Sequence: 9, Time: pastUntil.Add(-time.Minute)})
	v := poolsPast{Since: pastUntil.Add(-window.Length()), Until: pastUntil, Step: int64(window.Step.Seconds()), plain: plain}
	for _, p := range []PoolView{
		{Pool: "aws", Built: true, Clusters: view.Figure{N: 4}, Standings: map[account.State]int{account.Free: 3, account.InUse: 2}},
		{Pool: "aws+shared", Shared: true, Built: true, Clusters: view.Figure{N: 1_234_567}, Standings: map[account.State]int{account.Common: 1}},
		{Pool: "azure\x1b[2J", Standings: map[account.State]int{account.Unknown: 1}},
	} {
		v.Pools = append(v.Pools, pastOf(&p, o.Changes(p.Pool, window), window.Step, pastUntil))
	}
	return v
}

const drawn = `aws: 2 of 5 accounts in use, at most 3 in 24h
  5|
  4|
  3|             .-----------------------------.
  2|             |                             '---------------
  1+-------------'
  0|
   ++-------------------+------------------+-------------------+
  -24h                -16h                -8h                 now
`

// TestPoolsPastIsDrawn: the use rises with claims and falls with returns, in whole numbers, from the
// beginning to now.
func TestPoolsPastIsDrawn(t *testing.T) {
	t.Parallel()
	v := pastPools(true)
	v.Pools = v.Pools[:1]
	var got bytes.Buffer
	v.Show(&got, false)
	if got.String() != drawn {
		t.Errorf("drawn is\n%s", got.String())
	}
}

// oldLedger has a cluster that came two days ago, an extra reply about it of today, a cluster of today, and one of
// tomorrow. A reader that begins a day ago does not see the first reply.
type oldLedger struct{ past.Ledger }

func (oldLedger) FactsAfter(_ context.Context, sequence uint64, visit func(storage.Fact) error) error {
	for i, f := range []storage.Fact{
		{RuntimeID: "rt-1", Sequence: 1, Claimed: true, Time: pastUntil.Add(-48 * time.Hour)},
		{RuntimeID: "rt-1", Sequence: 1, Time: pastUntil.Add(-time.Hour)},
		{RuntimeID: "rt-2", Sequence: 2, Time: pastUntil.Add(-time.Hour)},
		{RuntimeID: "rt-3", Sequence: 3, Time: pastUntil.Add(time.Hour)},
	} {
		f.Status, f.Pool, f.Binding, f.Position = events.StatusAssigned, "aws", "aws-1", uint64(i+1)
		if f.Position <= sequence {
			continue
		}
		if err := visit(f); err != nil {
			return err
		}
	}
	return nil
}

// TestPoolsPastOfOldDecisions: a reply of the window that repeats an older decision is no arrival.
func TestPoolsPastOfOldDecisions(t *testing.T) {
	t.Parallel()
	window := past.Back(cli.Day, plotSteps)
	o, err := occupancyUntil(t.Context(), oldLedger{}, pastUntil, window)
	if err != nil {
		t.Fatal(err)
	}
	came := 0
	for _, c := range o.Changes("aws", window) {
		came += c.Came
	}
	if came != 1 {
		t.Errorf("%d clusters came, want 1", came)
	}
}

// TestPoolsPastFits: no line is wider than a terminal, and none contains a control. In a file, in a pipe and
// with NO_COLOR, all characters are ASCII.
func TestPoolsPastFits(t *testing.T) {
	t.Parallel()
	for _, plain := range []bool{true, false} {
		var got bytes.Buffer
		pastPools(plain).Show(&got, true)
		text := got.String()
		for line := range strings.Lines(text) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > cli.LineWidth {
				t.Errorf("%d columns: %s", n, line)
			}
		}
		if strings.ContainsRune(text, '\x1b') {
			t.Errorf("a terminal gets %q", text)
		}
		if ascii := utf8.RuneCountInString(text) == len(text); ascii != plain {
			t.Errorf("plain is %t, ASCII only %t:\n%s", plain, ascii, text)
		}
		for _, says := range []string{"aws: 4 clusters, at most 4", "aws+shared: 1234567 clusters", "not known, the pool is not built"} {
			if !strings.Contains(text, says) {
				t.Errorf("it does not say %q:\n%s", says, text)
			}
		}
	}
}

func TestPoolsHistoryUsage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		on      bool
		since   time.Duration
		changed string
		wrong   bool
	}{
		{on: true, since: cli.Day},
		{on: true, since: 30 * cli.Day, changed: "since"},
		{since: cli.Day},
		{since: 2 * cli.Day, changed: "since", wrong: true},
		{on: true, since: cli.Day, changed: "tenant", wrong: true},
		{on: true, since: cli.Day, changed: "watch", wrong: true},
		{on: true, since: 59 * time.Second, changed: "since", wrong: true},
		{on: true, since: -cli.Day, changed: "since", wrong: true},
	} {
		b := lookingBack{on: c.on, since: cli.Span(c.since)}
		if err := b.check(func(flag string) bool { return flag == c.changed }); (err != nil) != c.wrong {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
