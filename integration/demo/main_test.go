package main

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	workIfAsked() // the demo's workers run out of the demo's program, which is this one
	goleak.VerifyTestMain(m)
}
