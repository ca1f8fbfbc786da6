// Package client_test has the tests of events/requests, and of the broker of docs/clients.md, that need a NATS server
// and the ledger. The module of package events requires neither.
package client_test

import (
	"testing"

	"github.com/hap-worker/hap-worker/engine/leaktest"
	"github.com/hap-worker/hap-worker/events/eventstest"
	"github.com/hap-worker/hap-worker/ledger/ledgertest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// What every test here begins with.
var (
	within, setup, subjects                = ledgertest.Within, ledgertest.Ready, ledgertest.Subjects
	provision, assigned, waiting, rejected = eventstest.Provision, eventstest.Assigned, eventstest.Waiting, eventstest.Rejected
	replySubject, store, config            = ledgertest.ReplySubject, ledgertest.Store, ledgertest.StreamConfig
)
