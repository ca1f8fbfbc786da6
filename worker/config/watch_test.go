package config

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/hap-worker/hap-worker/engine/document"
)

// followed is a watched file. The channels receive the calls of changed and failed.
type followed struct {
	path    string
	changed chan *Config
	failed  chan error
}

// follow loads path, runs before, and starts Watch.
func follow(t *testing.T, path string, env []string, before func()) *followed {
	t.Helper()
	current, err := Load(path, env)
	if err != nil {
		t.Fatal(err)
	}
	if before != nil {
		before()
	}
	f := &followed{path: path, changed: make(chan *Config, 16), failed: make(chan error, 16)}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() {
		ended <- Watch(ctx, path, current, func(c *Config) { f.changed <- c }, func(err error) { f.failed <- err })
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the watch ended with %v", err)
		}
	})
	return f
}

func (f *followed) next(t *testing.T) *Config {
	t.Helper()
	select {
	case c := <-f.changed:
		return c
	case err := <-f.failed:
		t.Fatalf("failed: %v", err)
	case <-time.After(10 * time.Second):
		t.Fatal("no change was seen")
	}
	return nil
}

func (f *followed) failure(t *testing.T) error {
	t.Helper()
	select {
	case err := <-f.failed:
		return err
	case c := <-f.changed:
		t.Fatalf("changed: %s", c)
	case <-time.After(10 * time.Second):
		t.Fatal("no failure was seen")
	}
	return nil
}

// write replaces the file in one step, as careful editors do.
func write(t *testing.T, path, content string) {
	t.Helper()
	next := path + ".next"
	if err := os.WriteFile(next, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, path); err != nil {
		t.Fatal(err)
	}
}

func file(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "hap.yaml")
	write(t, path, content)
	return path
}

func waiting(timeout string) string { return "hap: {waiting: {timeout: " + timeout + "}}\n" }

func TestWatchTakesOverAChange(t *testing.T) {
	t.Parallel()
	f := follow(t, file(t, waiting("1m")), []string{"HAP_REDIS_PREFIX=env"}, nil)
	for _, timeout := range []time.Duration{2 * time.Minute, 3 * time.Minute} {
		write(t, f.path, waiting(timeout.String()))
		c := f.next(t)
		if c.HAP.Waiting.Timeout != timeout || c.Redis.Prefix != "env" {
			t.Errorf("took over %s", c)
		}
		if _, err := c.Decisions(); err != nil {
			t.Errorf("what was taken over does not compile: %v", err)
		}
	}
}

// TestWatchTakesRulesOfSeveralLines: such texts are shown and compared like any other.
func TestWatchTakesRulesOfSeveralLines(t *testing.T) {
	t.Parallel()
	rules := func(first string) string {
		return "hap: {rule: [\"" + first + "\\n\", azure, gcp, trial -> S, 'sap-converged-cloud -> HR, S', azure_lite, preview, free]}\n"
	}
	f := follow(t, file(t, rules("aws")), nil, nil)
	write(t, f.path, rules("aws -> PR"))
	if c := f.next(t); !strings.HasPrefix(c.HAP.Rule[0], "aws -> PR") || !strings.Contains(c.String(), "aws -> PR") {
		t.Errorf("took over %s", c)
	}
}

func TestWatchSeesAChangeMadeBeforeItBegan(t *testing.T) {
	t.Parallel()
	path := file(t, waiting("1m"))
	f := follow(t, path, nil, func() { write(t, path, waiting("2m")) })
	if c := f.next(t); c.HAP.Waiting.Timeout != 2*time.Minute {
		t.Errorf("took over %s", c)
	}
}

func TestWatchKeepsTheLastGoodOne(t *testing.T) {
	t.Parallel()
	f := follow(t, file(t, waiting("1m")), nil, nil)
	write(t, f.path, waiting("soon")+"nets: {}\n")
	var invalid document.Faults
	if err := f.failure(t); !errors.As(err, &invalid) || len(invalid) != 2 {
		t.Errorf("failed with %v", err)
	}
	write(t, f.path, "")
	if err := f.failure(t); !strings.Contains(err.Error(), "empty") {
		t.Errorf("failed with %v", err)
	}
	for range 2 { // the second time, the last valid one has the same values
		write(t, f.path, waiting("2m"))
		if c := f.next(t); c.HAP.Waiting.Timeout != 2*time.Minute {
			t.Errorf("took over %s", c)
		}
		write(t, f.path, "nets: {}\n")
		_ = f.failure(t)
	}
}

func TestWatchReportsAFileThatIsGone(t *testing.T) {
	t.Parallel()
	f := follow(t, file(t, waiting("1m")), nil, nil)
	if err := os.Remove(f.path); err != nil {
		t.Fatal(err)
	}
	if err := f.failure(t); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("failed with %v", err)
	}
	write(t, f.path, waiting("3m"))
	if c := f.next(t); c.HAP.Waiting.Timeout != 3*time.Minute {
		t.Errorf("took over %s", c)
	}
}

// TestWatchSaysWhatNeedsARestart: changed connections keep the values in use, and are reported at each change
// of the file until they equal these again.
func TestWatchSaysWhatNeedsARestart(t *testing.T) {
	t.Parallel()
	f := follow(t, file(t, waiting("1m")), nil, nil)
	write(t, f.path, waiting("2m")+"redis: {prefix: other}\ntelemetry: {listen: ':9', logLevel: debug}\ngardener: {budget: 30s}\n")
	var needs *NeedsRestart
	c := <-f.changed
	if err := f.failure(t); !errors.As(err, &needs) || !slices.Equal(needs.Keys, []string{"redis.prefix", "gardener.budget", "telemetry.listen"}) {
		t.Errorf("failed with %v", err)
	}
	if c.HAP.Waiting.Timeout != 2*time.Minute || c.Telemetry.LogLevel != "debug" || c.Redis.Prefix != "hap" || c.Telemetry.Listen != ":8080" {
		t.Errorf("took over %s", c)
	}
	write(t, f.path, waiting("3m"))
	if c := f.next(t); c.HAP.Waiting.Timeout != 3*time.Minute {
		t.Errorf("took over %s", c)
	}
}

// TestWatchOfTheNetworkSection: the section switches network ranges on even if it is empty, which needs a restart.
func TestWatchOfTheNetworkSection(t *testing.T) {
	t.Parallel()
	f := follow(t, file(t, waiting("1m")), nil, nil)
	write(t, f.path, waiting("1m")+"network: {}\n")
	var needs *NeedsRestart
	if err := f.failure(t); !errors.As(err, &needs) || !slices.Equal(needs.Keys, []string{"network"}) {
		t.Errorf("failed with %v", err)
	}
	write(t, f.path, waiting("2m"))
	if c := f.next(t); c.Given("network") {
		t.Error("the section is there")
	}
}

// TestWatchRefusesWhatIsValidOnlyAfterARestart: the new waiting time is longer than the retention that stays
// in use.
func TestWatchRefusesWhatIsValidOnlyAfterARestart(t *testing.T) {
	t.Parallel()
	f := follow(t, file(t, waiting("1m")), nil, nil)
	write(t, f.path, waiting("200h")+"nats: {retention: 300h}\n")
	err := f.failure(t)
	var needs *NeedsRestart
	var invalid document.Faults
	if !errors.As(err, &needs) || !errors.As(err, &invalid) {
		t.Errorf("failed with %v", err)
	}
	write(t, f.path, waiting("2m"))
	if c := f.next(t); c.HAP.Waiting.Timeout != 2*time.Minute {
		t.Errorf("took over %s", c)
	}
}

func TestWatchOfADirectoryThatIsNotThere(t *testing.T) {
	t.Parallel()
	err := Watch(context.Background(), filepath.Join(t.TempDir(), "none", "hap.yaml"), Default(), nil, nil)
	if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fsnotify.ErrNonExistentWatch) {
		t.Errorf("ended with %v", err)
	}
}

func TestLoadOfAFileThatIsNotThere(t *testing.T) {
	t.Parallel()
	_, err := Load(filepath.Join(t.TempDir(), "none.yaml"), nil)
	var invalid document.Faults
	if !errors.As(err, &invalid) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("ended with %v", err)
	}
}
