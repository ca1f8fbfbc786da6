package dead_test

import (
	"testing"

	"github.com/hap-worker/hap-worker/engine/leaktest"
	"github.com/hap-worker/hap-worker/ledger/ledgertest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// What every test here begins with.
var within, setup, subjects = ledgertest.Within, ledgertest.Ready, ledgertest.Subjects
