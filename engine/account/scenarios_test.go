package account_test

import (
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/hap-worker/hap-worker/engine/account/accounttest"
)

// TestScenarios runs the stories of docs/protocol.md on the model. With -rewrite it writes the results; the
// Redis scripts must produce the same text.
func TestScenarios(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "accounttest/testdata", func(t *testing.T, path string) {
		story := accounttest.NewStory(accounttest.NewModel())
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			return story.Do(t, d)
		})
	})
}
