package repair

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/cmd/hapctl/clitest"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/foreign"
)

func TestListsFitATerminal(t *testing.T) {
	t.Parallel()
	const id = "8f2b4c1e-77aa-4c9e-9d10-3f6d2b7c5a01"
	clitest.FitsATerminal(t, "foreign", foreignList{[]foreignView{{
		Stream: events.StreamReplies, Sequence: 123456, StoredAt: time.Now(), Bytes: 12345, Subject: "hap.v1.reply." + id + "." + id,
	}}}.Show)
}

// TestRemovalFails: a failed removal has exit code 1, whether the right is missing or the message is kept.
func TestRemovalFails(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		fmt.Errorf("no answer: %w", context.DeadlineExceeded), // the right is missing
		fmt.Errorf("%w: a reason", foreign.ErrKept),
	} {
		if code := cli.ExitCode(removalError(err)); code != cli.ExitFailure {
			t.Errorf("%v: exit code %d", err, code)
		}
	}
}
