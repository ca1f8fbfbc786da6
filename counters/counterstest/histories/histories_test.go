// Package histories_test compares the account protocol in Redis with its model,
// random history by random history. It is a separate package for the sake of
// rapid's flags, which are the process's.
package histories_test

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/hap-worker/hap-worker/counters/counterstest"
	"github.com/hap-worker/hap-worker/engine/leaktest"
	"github.com/hap-worker/hap-worker/engine/seedtest"
)

const (
	histories = 1000 // in CI, unless HAP_HISTORIES says otherwise
	shards    = 2    // each with its own server
	mean      = 60   // operations of a history: some 41 in the median
	least     = 30   // operations in the median
)

// byHand says that the command line has a -rapid.seed.
var byHand bool

func TestMain(m *testing.M) {
	set("rapid.steps", mean)
	set("rapid.nofailfile", true) // the seed is enough
	flag.Parse()                  // what the command line says wins
	byHand = flag.Lookup("rapid.seed").Value.String() != "0"
	leaktest.Main(m)
}

// TestHistories runs HAP_HISTORIES random histories and prints their operations and outcomes. A
// failure names the broken invariant, or the difference between store and model, and the seed of its
// history. HAP_HISTORIES_SEED is the seed of the first history, by default HAP_SEED, so that
// HAP_HISTORIES=1 runs one history again.
func TestHistories(t *testing.T) {
	n, seed := number(t, "HAP_HISTORIES", uint64(seedtest.Share(histories))), number(t, "HAP_HISTORIES_SEED", seedtest.Of(t))
	parts := min(shards, n)
	clients := make([]*redis.Client, parts)
	for part := range clients {
		clients[part] = counterstest.Redis(t)
	}
	all := counterstest.NewTally()
	t.Run("part", func(t *testing.T) {
		var mu sync.Mutex
		for part, client := range clients {
			t.Run(strconv.Itoa(part), func(t *testing.T) {
				t.Parallel()
				// rapid's seeds of one part are some millions apart at the most.
				tally := run(t, client, (n+uint64(part))/parts, seed+uint64(part)<<40)
				mu.Lock()
				defer mu.Unlock()
				all.Add(tally)
			})
		}
	})
	if t.Failed() {
		t.Log("to run that history again: make histories N=1 SEED=<the number after -rapid.seed=>")
		return
	}
	t.Logf("seed %d: %v", seed, all)
	if uint64(all.Histories()) != n {
		t.Errorf("%d histories were run, %d were asked for", all.Histories(), n)
	}
	if n < histories {
		return // too few to have seen everything
	}
	if missing := all.Missing(); len(missing) > 0 || all.Median() < least {
		t.Errorf("the histories have %d operations in the median and lack %q", all.Median(), missing)
	}
}

// seeding protects rapid's flags until a part has read them.
var seeding sync.Mutex

func run(t *testing.T, client *redis.Client, n, seed uint64) *counterstest.Tally {
	tally := counterstest.NewTally()
	property := counterstest.Histories(client, tally)
	var read sync.Once
	seeding.Lock()
	set("rapid.checks", n)
	if !byHand {
		set("rapid.seed", seed)
	}
	rapid.Check(t, func(rt *rapid.T) {
		read.Do(seeding.Unlock)
		property(rt)
	})
	return tally
}

func set(name string, value any) {
	if err := flag.Set(name, fmt.Sprint(value)); err != nil {
		panic(err)
	}
}

// number reads an environment variable.
func number(t *testing.T, name string, otherwise uint64) uint64 {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n == 0 {
		t.Fatalf("%s is %q: it is to be a number above 0", name, text)
	}
	return n
}
