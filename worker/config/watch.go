package config

import (
	"context"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/hap-worker/hap-worker/worker/filewatch"
)

// live are the prefixes of keys that take effect without a restart.
var live = []string{"hap.", "telemetry.logLevel", "worker.reconcile."}

// NeedsRestart is the error for changed keys that need a restart. The file's other keys have taken effect, unless
// Rest is set.
type NeedsRestart struct {
	Keys []string
	// Rest says why the rest of the file is not valid with the values in use of these keys. If it is nil, the
	// rest was applied; otherwise nothing was.
	Rest error
}

// Error names the keys, and what is not valid without them.
func (e *NeedsRestart) Error() string {
	text := "needs a restart: " + strings.Join(e.Keys, ", ")
	if e.Rest != nil {
		text += "; without these keys, the rest of the file is not valid:\n" + e.Rest.Error()
	}
	return text
}

// Unwrap returns Rest.
func (e *NeedsRestart) Unwrap() error { return e.Rest }

// Watch watches the file at path, from which current was loaded, until ctx ends.
//
// It loads a changed file with the environment of current. Keys that need a restart keep the value in use; if
// they differ in the file, Watch calls failed with a [NeedsRestart]. If another key has changed, Watch calls
// changed with the whole new configuration. If the file cannot be read, or is invalid by itself or with the
// kept values, Watch calls failed with the error, and the last configuration stays in use. Once the file is valid
// again, Watch calls changed even if nothing differs. It also calls failed with a *filewatch.Error, after which changes may be
// noticed late. It calls both from its goroutine. It also finds a change between Load and Watch.
//
// It returns an error if the directory of path cannot be read, and nil when ctx has ended.
func Watch(ctx context.Context, path string, current *Config, changed func(*Config), failed func(error)) error {
	w := watch{path: path, current: current, changed: changed, failed: failed}
	return filewatch.Watch(ctx, path, current.sum, w.look, failed)
}

type watch struct {
	path    string
	current *Config
	changed func(*Config)
	failed  func(error)
	refused bool // the last file was
}

// look loads the file, and reports the new configuration or the error.
func (w *watch) look() {
	content, err := os.ReadFile(w.path)
	if err != nil {
		w.refuse(fmt.Errorf("cannot read the changed configuration; the last valid one stays in use: %w", err))
		return
	}
	next, err := parse(w.path, content, w.current.env)
	if err != nil {
		w.refuse(err)
		return
	}
	restart := next.keep(w.current)
	if err := next.Validate(); err != nil && len(restart) > 0 {
		w.refuse(&NeedsRestart{Keys: restart, Rest: err})
		return
	}
	unchanged := next.equal(w.current) && !w.refused
	w.current, w.refused = next, false
	if !unchanged {
		w.changed(next)
	}
	if len(restart) > 0 {
		w.failed(&NeedsRestart{Keys: restart})
	}
}

func (w *watch) refuse(err error) {
	w.refused = true
	w.failed(err)
}

// keep sets the keys that need a restart to the values in use, and returns the ones that differed.
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
	if c.Given("network") != inUse.Given("network") { // the section alone switches network ranges on, even if it is empty
		keys = append(keys, "network")
		c.present = maps.Clone(c.present)
		c.present["network"] = inUse.Given("network")
	}
	return keys
}

// equal reports whether all keys have the same values.
func (c *Config) equal(o *Config) bool {
	ours, theirs := leaves(c), leaves(o)
	return slices.EqualFunc(ours, theirs, func(a, b leaf) bool { return reflect.DeepEqual(a.value.Interface(), b.value.Interface()) })
}

func takenOver(path string) bool {
	return slices.ContainsFunc(live, func(prefix string) bool { return strings.HasPrefix(path, prefix) })
}
