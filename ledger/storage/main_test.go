package storage_test

import (
	"testing"

	"github.com/hap-worker/hap-worker/engine/leaktest"
	"github.com/hap-worker/hap-worker/events/eventstest"
	"github.com/hap-worker/hap-worker/ledger/ledgertest"
)

var (
	within, setup, subjects                = ledgertest.Within, ledgertest.Ready, ledgertest.Subjects
	provision, assigned, waiting, rejected = eventstest.Provision, eventstest.Assigned, eventstest.Waiting, eventstest.Rejected
	replySubject, store, config            = ledgertest.ReplySubject, ledgertest.Store, ledgertest.StreamConfig
)

func TestMain(m *testing.M) { leaktest.Main(m) }
