package requests_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/hap-worker/hap-worker/events/eventstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What every test here begins with.
var within, setup, subjects = eventstest.Within, eventstest.Ready, eventstest.Subjects
