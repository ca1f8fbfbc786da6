package letters

import (
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/cmd/hapctl/clitest"
	"github.com/hap-worker/hap-worker/engine"
)

func TestListsFitATerminal(t *testing.T) {
	t.Parallel()
	const id = "8f2b4c1e-77aa-4c9e-9d10-3f6d2b7c5a01"
	clitest.FitsATerminal(t, "letters", letterList{[]Letter{{
		Number: 123456, StoredAt: time.Now(), Type: "deprovision", RequestID: id, RuntimeID: id, Code: engine.CodeNoMatchingRule,
	}}}.Show)
}
