package requests_test

import (
	"testing"

	"github.com/hap-worker/hap-worker/engine/leaktest"
	"github.com/hap-worker/hap-worker/events/eventstest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// What every test here begins with.
var (
	within, setup, subjects                = eventstest.Within, eventstest.Ready, eventstest.Subjects
	provision, assigned, waiting, rejected = eventstest.Provision, eventstest.Assigned, eventstest.Waiting, eventstest.Rejected
	replySubject, store, config            = eventstest.ReplySubject, eventstest.Store, eventstest.StreamConfig
)
