// Package seedtest provides the seed of random tests. The default is fixed, so that runs repeat; HAP_SEED
// sets another seed, and HAP_SEED=random draws one.
package seedtest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
)

// Variable is the environment variable with the seed of all random tests.
const Variable = "HAP_SEED"

// usual is the default seed.
const usual = 1

// Seed returns the seed of this process. A drawn seed is printed to standard error.
var Seed = sync.OnceValues(func() (uint64, error) {
	seed, err := parse(os.Getenv(Variable), func() uint64 { return rand.Uint64() >> 1 })
	if err == nil && os.Getenv(Variable) == "random" {
		fmt.Fprintf(os.Stderr, "%s=%d\n", Variable, seed)
	}
	return seed, err
})

// parse reads the value of Variable.
func parse(text string, draw func() uint64) (uint64, error) {
	switch text {
	case "":
		return usual, nil
	case "random":
		return max(draw(), 1), nil
	}
	seed, err := strconv.ParseUint(text, 10, 63)
	if err != nil || seed == 0 {
		return 0, fmt.Errorf("%s is %q: it is to be a number above 0, or random", Variable, text)
	}
	return seed, nil
}

// Share returns n in CI, where HAP_REQUIRE_ALL is set. Elsewhere it returns half of n, so that the tests of one package
// end within seconds. n is a number of random histories or checks.
func Share(n int) int {
	if os.Getenv("HAP_REQUIRE_ALL") != "" {
		return n
	}
	return n / 2
}

// Of returns the seed for a test, and writes it to the test's log.
func Of(t testing.TB) uint64 {
	t.Helper()
	seed, err := Seed()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("seed %d: %s=%d has it again", seed, Variable, seed)
	return seed
}
