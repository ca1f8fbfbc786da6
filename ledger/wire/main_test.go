// Package wire_test compares package events with its schemas and with the documents that describe it. It is not beside
// package events because it needs the repository and libraries that a publisher's go.mod shall not have.
package wire_test

import (
	"testing"

	"github.com/hap-worker/hap-worker/engine/leaktest"
	_ "github.com/hap-worker/hap-worker/engine/rapidtest" // fixes the seed
)

func TestMain(m *testing.M) { leaktest.Main(m) }
