package repair

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/hap-worker/hap-worker/cmd/hapctl/clitest"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// rebuildOfThree prints the progress of a rebuild of three places, and a message after it.
func rebuildOfThree(s *cli.Shell) {
	p := newProgress(s)
	for _, step := range []observe.Step{
		observe.StepToken, observe.StepSealed, observe.StepGathered, observe.StepInstalled, observe.StepInstalled, observe.StepInstalled,
	} {
		p.rebuilds(context.Background(), step)
	}
	p.end()
	s.Say("done")
}

// TestProgress: each stage has a line; the count is shown only on a terminal.
func TestProgress(t *testing.T) {
	var talk bytes.Buffer
	rebuildOfThree(&cli.Shell{Stderr: cli.Stream{To: &talk}})
	const want = `hapctl: rebuild: sealing what is not settled
hapctl: rebuild: reading ledger, labels and Shoots
hapctl: rebuild: putting pools and directory in place
hapctl: done
`
	if talk.String() != want {
		t.Errorf("without a terminal it writes\n%s", talk.String())
	}
	t.Setenv("TERM", "xterm")
	if got := seen(t); !strings.Contains(got, "\r\x1b[Khapctl: rebuild: putting pools and directory in place: 3\r\nhapctl: done\r\n") {
		t.Errorf("the terminal shows %q", got)
	}
	t.Setenv("TERM", "dumb")
	if got := strings.ReplaceAll(seen(t), "\r\n", "\n"); got != want {
		t.Errorf("a terminal that cannot move shows %q", got)
	}
}

// seen returns the output on a terminal.
func seen(t *testing.T) string {
	t.Helper()
	screen, tty := clitest.OpenTerminal(t)
	rebuildOfThree(&cli.Shell{Stderr: cli.Stream{To: tty}})
	return clitest.Until(t, screen, "hapctl: done\r\n")
}
