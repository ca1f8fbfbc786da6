package config

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// settle is how long a file must have been left alone before it is read: an
// editor writes in several steps, a ConfigMap is swapped by several renames.
const settle = 100 * time.Millisecond

// live are the keys that are taken over while the worker runs.
var live = []string{"hap.", "telemetry.logLevel", "worker.reconcile."}

// NeedsRestart says which keys of a changed file are not taken over while the
// worker runs. The rest of the file is.
type NeedsRestart struct{ Keys []string }

// Error names the keys.
func (e *NeedsRestart) Error() string {
	return "needs a restart to be taken over: " + strings.Join(e.Keys, ", ")
}

// Watch follows the file at path, which current was loaded from, until ctx ends.
//
// A changed file is loaded with the environment of current. If it is valid,
// changed is given the new configuration, whole; the keys that need a restart
// keep the value of current there, and failed is given a [NeedsRestart] that
// names them. If it is not valid, failed is given the [Invalid] and what was
// given last stays. Both are called one at a time, from this goroutine. A
// change between Load and Watch is found too.
//
// The error is that of the file system where path cannot be watched; nil when ctx ended.
func Watch(ctx context.Context, path string, current *Config, changed func(*Config), failed func(error)) error {
	w := watch{path: path, current: current, content: current.content, changed: changed, failed: failed, settle: settle}
	return w.run(ctx)
}

type watch struct {
	path    string
	current *Config
	content []byte // of the file, when it was looked at last
	missing bool   // it could not be read then
	changed func(*Config)
	failed  func(error)
	settle  time.Duration
}

func (w *watch) run(ctx context.Context) error {
	files, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch %s: %w", w.path, err)
	}
	defer func() { _ = files.Close() }()
	if err := files.Add(filepath.Dir(w.path)); err != nil {
		return fmt.Errorf("watch %s: %w", w.path, err)
	}
	quiet := time.NewTimer(0)
	defer quiet.Stop()
	var latest time.Time // a directory that is never quiet must not put the reading off for ever
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-quiet.C:
			latest = time.Time{}
			w.follow(files) // first: a change while it is read makes another event
			w.look()
		case <-files.Events:
			if latest.IsZero() {
				latest = time.Now().Add(10 * w.settle)
			}
			quiet.Reset(min(w.settle, time.Until(latest)))
		case err := <-files.Errors:
			if !errors.Is(err, fsnotify.ErrEventOverflow) {
				w.failed(fmt.Errorf("watch %s: %w", w.path, err))
			}
			quiet.Reset(w.settle)
		}
	}
}

// follow also watches the directory that path leads to where it is a link. The
// directory's own is watched from the beginning, and is enough for a ConfigMap.
func (w *watch) follow(files *fsnotify.Watcher) {
	target, err := filepath.EvalSymlinks(w.path)
	if err != nil {
		return
	}
	if dir := filepath.Dir(target); !slices.Contains(files.WatchList(), dir) {
		if err := files.Add(dir); err != nil {
			w.failed(fmt.Errorf("watch %s: %w", dir, err))
		}
	}
}

// look reads the file and takes it over if it is another one.
func (w *watch) look() {
	content, err := os.ReadFile(w.path)
	if err != nil {
		if !w.missing {
			w.missing = true
			w.failed(fmt.Errorf("the changed configuration cannot be read, the last one stays: %w", err))
		}
		return
	}
	if bytes.Equal(content, w.content) && !w.missing {
		return
	}
	w.content, w.missing = content, false
	next, err := parse(w.path, content, w.current.env)
	if err != nil {
		w.failed(err)
		return
	}
	restart := next.keep(w.current)
	if err := next.Validate(); err != nil && len(restart) > 0 {
		w.failed(fmt.Errorf("%w, and the rest is not valid without that:\n%w", &NeedsRestart{Keys: restart}, err))
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
