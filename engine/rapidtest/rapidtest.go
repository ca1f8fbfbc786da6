// Package rapidtest fixes the seed of rapid in the tests of the packages that import it, and the number
// of its checks, as seedtest says. -rapid.seed and -rapid.checks on the command line win.
package rapidtest

import (
	"flag"
	"strconv"

	_ "pgregory.net/rapid" // registers the flags

	"github.com/hap-worker/hap-worker/engine/seedtest"
)

var _ = fix()

// checks is rapid's default.
const checks = 100

// fix sets the flags before the command line is read.
func fix() uint64 {
	seed, err := seedtest.Seed()
	if err == nil {
		err = flag.Set("rapid.seed", strconv.FormatUint(seed, 10))
	}
	if err == nil {
		err = flag.Set("rapid.checks", strconv.Itoa(seedtest.Share(checks)))
	}
	if err != nil {
		panic(err)
	}
	return seed
}
