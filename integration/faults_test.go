package integration_test

import (
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/integration/bench/origin"
	"github.com/hap-worker/hap-worker/integration/faults"
	"github.com/hap-worker/hap-worker/integration/stack"
)

// TestFaults runs three workers under load while everything around them fails.
// HAP_FAULTS_DURATION and HAP_FAULTS_SEED choose another schedule, HAP_FAULTS_EVERY is
// the time between two steps of the broker, HAP_FAULTS_DIR keeps the workers' logs and
// what was read at the end. HAP_FAULTS_GARDENER=light needs no build of kube-apiserver.
func TestFaults(t *testing.T) {
	t.Parallel()
	faultsOf(t, "HAP_FAULTS_", faults.Options{Duration: 2 * time.Minute})
}

// TestSoak runs three workers under a steady load with a fault now and then: what they hold
// must not grow. The plot of it is soak.svg in the directory. HAP_SOAK_DURATION, HAP_SOAK_SEED, HAP_SOAK_EVERY, HAP_SOAK_DIR and
// HAP_SOAK_GARDENER are as those of TestFaults.
func TestSoak(t *testing.T) {
	t.Parallel()
	faultsOf(t, "HAP_SOAK_", faults.Options{Duration: 5 * time.Minute, Every: 25 * time.Millisecond, Gardener: stack.LightGardener, Soak: true})
}

// faultsOf runs a schedule with what the environment says under a prefix.
func faultsOf(t *testing.T, prefix string, o faults.Options) {
	t.Helper()
	requireRedis(t)
	o.Seed, o.Dir, o.Log = uint64(time.Now().UnixNano()), os.Getenv(prefix+"DIR"), t.Logf
	o.Gardener = cmp.Or(os.Getenv(prefix+"GARDENER"), o.Gardener)
	var err error
	if text := os.Getenv(prefix + "SEED"); text != "" {
		if o.Seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	for name, value := range map[string]*time.Duration{"DURATION": &o.Duration, "EVERY": &o.Every} {
		if text := os.Getenv(prefix + name); text != "" {
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
	if len(report.Readings) > 0 {
		path := filepath.Join(o.Dir, "soak.svg")
		if err := report.Plot(path); err != nil {
			t.Error(err)
		}
		t.Logf("%s; plot in %s", origin.Of(t.Context()), path)
	}
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
