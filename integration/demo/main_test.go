package main

import (
	"testing"

	"github.com/hap-worker/hap-worker/engine/leaktest"
)

func TestMain(m *testing.M) {
	workIfAsked() // the demo's workers run out of the demo's program, which is this one
	leaktest.Main(m)
}
