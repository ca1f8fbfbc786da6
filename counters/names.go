package counters

import (
	"fmt"

	"github.com/hap-worker/hap-worker/engine"
)

// maxNumber bounds generations and sequences: Lua computes in floating point
// and is exact up to here.
const maxNumber = 1<<53 - 2

// checkNames refuses names with a space, '|', a control character or a byte outside of ASCII: spaces and
// '|' separate the parts of records. Every Kubernetes name and label value passes.
func checkNames(names ...string) error {
	for _, name := range names {
		for i := range len(name) {
			if c := name[i]; c <= ' ' || c == '|' || c >= 0x7f {
				return invalid(fmt.Errorf("name %q has the byte %#02x", name, c))
			}
		}
	}
	return nil
}

// checkNumbers refuses negative numbers, and numbers that Lua would round.
func checkNumbers(numbers ...int64) error {
	for _, n := range numbers {
		if n < 0 || n > maxNumber {
			return invalid(fmt.Errorf("number %d is not between 0 and %d", n, int64(maxNumber)))
		}
	}
	return nil
}

// invalid returns the error of a refused argument. Labels and annotations do not lead to it: no label has such a
// name, and generations and runtime ids of annotations are checked where they are read.
func invalid(err error) error {
	return &engine.Error{
		Code: engine.CodeInternal, Op: "arguments of a Redis script", Err: err,
		Hint: "look for a reply in the ledger or a record in Redis that was written by hand",
	}
}
