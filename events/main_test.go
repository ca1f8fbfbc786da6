package events_test

import (
	"cmp"
	"flag"
	"log"
	"os"
	"testing"

	"github.com/hap-worker/hap-worker/events/eventstest"
)

var provision, assigned = eventstest.Provision, eventstest.Assigned

// TestMain fixes rapid's seed, so that runs repeat: at the number in HAP_SEED, or at 1. With HAP_SEED=random, rapid
// draws one. A -rapid.seed on the command line wins. Package rapidtest, which does the same for the worker, is in a
// module that this one must not require.
func TestMain(m *testing.M) {
	if seed := cmp.Or(os.Getenv("HAP_SEED"), "1"); seed != "random" {
		if err := flag.Set("rapid.seed", seed); err != nil {
			log.Fatal(err)
		}
	}
	os.Exit(m.Run())
}
