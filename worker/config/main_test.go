package config

import (
	"testing"

	"github.com/hap-worker/hap-worker/engine/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }
