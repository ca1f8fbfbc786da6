// Package leaktest looks for goroutines that outlive the tests of a package.
package leaktest

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is how long goroutines may take to end. goleak itself waits 0.4 s, which is too short on
// a loaded machine. Only a goroutine that hangs makes the tests wait this long.
const patience = 15 * time.Second

// Main runs the tests of a package. If they pass and leave goroutines behind, it fails. It does
// not return.
func Main(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if err := Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// Find waits until no goroutine of the tests is left, and returns nil. If some are left after patience, it
// returns an error that names them.
func Find() error {
	end := time.Now().Add(patience)
	for {
		err := goleak.Find() // it waits between its attempts
		if err == nil || time.Now().After(end) {
			return err
		}
	}
}
