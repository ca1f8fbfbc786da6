package account_test

import (
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/hap-worker/hap-worker/engine/account/accounttest"
)

// TestScenarios tells the stories of docs/protocol.md to the model. With
// -rewrite it writes down what came of them; the Redis scripts are held to the
// same text.
func TestScenarios(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "accounttest/testdata", func(t *testing.T, path string) {
		story := accounttest.NewStory(accounttest.NewModel())
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			return story.Do(t, d)
		})
	})
}
