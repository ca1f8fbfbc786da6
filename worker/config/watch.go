package config

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/hap-worker/hap-worker/worker/filewatch"
)

// live are the keys that are taken over while the worker runs.
var live = []string{"hap.", "telemetry.logLevel", "worker.reconcile."}

// NeedsRestart says which keys of a changed file are not taken over while the
// worker runs. The rest of the file is.
type NeedsRestart struct{ Keys []string }

// Error names the keys.
func (e *NeedsRestart) Error() string {
	return "needs a restart: " + strings.Join(e.Keys, ", ")
}

// Watch follows the file at path, which current was loaded from, until ctx ends.
//
// A changed file is loaded with the environment of current. If it is valid,
// changed is given the new configuration, whole; the keys that need a restart
// keep the value of current there, and failed is given a [NeedsRestart] that
// names them. If it is not valid, failed is given the [document.Faults] and what was
// given last stays. Both are called one at a time, from this goroutine. A
// change between Load and Watch is found too.
//
// The error is that of the file system where path cannot be watched; nil when ctx ended.
func Watch(ctx context.Context, path string, current *Config, changed func(*Config), failed func(error)) error {
	w := watch{path: path, current: current, changed: changed, failed: failed}
	return filewatch.Watch(ctx, path, current.sum, w.look, failed)
}

type watch struct {
	path    string
	current *Config
	changed func(*Config)
	failed  func(error)
}

// look reads the file and takes it over.
func (w *watch) look() {
	content, err := os.ReadFile(w.path)
	if err != nil {
		w.failed(fmt.Errorf("cannot read the changed configuration; the last valid one stays in use: %w", err))
		return
	}
	next, err := parse(w.path, content, w.current.env)
	if err != nil {
		w.failed(err)
		return
	}
	restart := next.keep(w.current)
	if err := next.Validate(); err != nil && len(restart) > 0 {
		w.failed(fmt.Errorf("%w; without these keys, the rest of the file is not valid:\n%w", &NeedsRestart{Keys: restart}, err))
		return
	}
	unchanged := bytes.Equal(next.Effective(), w.current.Effective())
	w.current = next
	if !unchanged {
		w.changed(next)
	}
	if len(restart) > 0 {
		w.failed(&NeedsRestart{Keys: restart})
	}
}

// keep puts the values that are in use into the keys that need a restart, and
// says which of them the file wants otherwise.
func (c *Config) keep(inUse *Config) []string {
	var keys []string
	wanted, running := leaves(c), leaves(inUse.clone())
	for i, leaf := range wanted {
		if takenOver(leaf.path) || reflect.DeepEqual(leaf.value.Interface(), running[i].value.Interface()) {
			continue
		}
		keys = append(keys, leaf.path)
		leaf.value.Set(running[i].value)
	}
	return keys
}

func takenOver(path string) bool {
	return slices.ContainsFunc(live, func(prefix string) bool { return strings.HasPrefix(path, prefix) })
}
