// Package rapidtest fixes the seed of rapid in the tests of the packages that import it, as
// seedtest says. A -rapid.seed on the command line wins.
package rapidtest

import (
	"flag"
	"strconv"

	_ "pgregory.net/rapid" // registers the flag

	"github.com/hap-worker/hap-worker/engine/seedtest"
)

var _ = fix()

// fix sets the flag before the command line is read.
func fix() uint64 {
	seed, err := seedtest.Seed()
	if err == nil {
		err = flag.Set("rapid.seed", strconv.FormatUint(seed, 10))
	}
	if err != nil {
		panic(err)
	}
	return seed
}
