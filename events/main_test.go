package events_test

import (
	"testing"

	"github.com/hap-worker/hap-worker/engine/leaktest"
	"github.com/hap-worker/hap-worker/events/eventstest"
)

var provision, assigned = eventstest.Provision, eventstest.Assigned

func TestMain(m *testing.M) { leaktest.Main(m) }
