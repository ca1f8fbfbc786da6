// Package leaktest looks for goroutines that outlive the tests of a package.
package leaktest

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is how long goroutines may take to end. goleak's own, 0.4 s, is less than a loaded
// machine may keep one waiting for its turn; only one that hangs takes as long as this.
const patience = 15 * time.Second

// Main runs the tests of a package, and fails where goroutines of theirs are left. It does
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

// Find returns an error that names the goroutines that do not end.
func Find() error {
	end := time.Now().Add(patience)
	for {
		err := goleak.Find() // which waits itself between its looks
		if err == nil || time.Now().After(end) {
			return err
		}
	}
}
