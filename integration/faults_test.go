package integration_test

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/integration/faults"
)

// TestFaults runs three workers under load while everything around them fails.
// HAP_FAULTS_DURATION and HAP_FAULTS_SEED choose another schedule, HAP_FAULTS_DIR
// keeps the workers' logs and what was read at the end.
func TestFaults(t *testing.T) {
	t.Parallel()
	requireRedis(t)
	o := faults.Options{Seed: uint64(time.Now().UnixNano()), Duration: 2 * time.Minute, Dir: os.Getenv("HAP_FAULTS_DIR"), Log: t.Logf}
	var err error
	if text := os.Getenv("HAP_FAULTS_SEED"); text != "" {
		if o.Seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	if text := os.Getenv("HAP_FAULTS_DURATION"); text != "" {
		if o.Duration, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Logf("seed %d", o.Seed)
	report, err := faults.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(report)
	for _, violation := range report.Violations {
		t.Error(violation)
	}
}
