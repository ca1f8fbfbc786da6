package integration_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/integration/faults"
)

// TestFaults runs three workers under load while everything around them fails.
// HAP_FAULTS_DURATION and HAP_FAULTS_SEED choose another schedule, HAP_FAULTS_EVERY is
// the time between two steps of the broker, HAP_FAULTS_DIR keeps the workers' logs and
// what was read at the end. HAP_FAULTS_GARDENER=light needs no build of kube-apiserver.
func TestFaults(t *testing.T) {
	t.Parallel()
	requireRedis(t)
	o := faults.Options{Seed: uint64(time.Now().UnixNano()), Duration: 2 * time.Minute, Dir: os.Getenv("HAP_FAULTS_DIR"), Gardener: os.Getenv("HAP_FAULTS_GARDENER"), Log: t.Logf}
	var err error
	if text := os.Getenv("HAP_FAULTS_SEED"); text != "" {
		if o.Seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	for name, value := range map[string]*time.Duration{"HAP_FAULTS_DURATION": &o.Duration, "HAP_FAULTS_EVERY": &o.Every} {
		if text := os.Getenv(name); text != "" {
			if *value, err = time.ParseDuration(text); err != nil {
				t.Fatal(err)
			}
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
	logged(t, o.Dir, report.Violations)
}

// logged shows what the workers logged of the runtimes that violations name: where the
// directory goes with the run, nothing else tells how it came about.
func logged(t *testing.T, dir string, violations []string) {
	t.Helper()
	const most = 200 // lines
	runtimes := regexp.MustCompile(`\brt-\d+\b`).FindAllString(strings.Join(violations, "\n"), -1)
	files, err := filepath.Glob(filepath.Join(dir, "worker-*.log"))
	if err != nil {
		t.Error(err)
	}
	var lines []string
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Error(err)
			continue
		}
		for line := range strings.Lines(string(content)) {
			if slices.ContainsFunc(runtimes, func(runtime string) bool { return strings.Contains(line, runtime) }) {
				lines = append(lines, filepath.Base(file)+" "+line)
			}
		}
	}
	for _, line := range lines[:min(most, len(lines))] {
		t.Log(strings.TrimSpace(line))
	}
}
