// Package filewatch watches the content at a path: a file, which an editor may write in several steps; a
// directory tree; or the mount of a ConfigMap, whose links the kubelet swaps.
package filewatch

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// settle is the pause without file events before the sum is computed: an editor writes in several steps, and
// a ConfigMap is swapped by several renames. If events keep coming, the sum is computed after ten times settle.
const settle = 100 * time.Millisecond

// lookAgain is how long after a sum the next one is computed without an event. No event comes from a directory that
// took the name of another one that was moved away, or that was missing when it was looked for.
const lookAgain = 30 * time.Second

// Sum returns a checksum of the content of a file, or of the names and contents of all files below a directory. It
// follows links in path, but not below it: there, the target of a link counts as its content. It returns 0 if the
// path or something below it cannot be read; files that disappear meanwhile are left out.
func Sum(path string) uint64 {
	root, err := filepath.EvalSymlinks(path)
	if err != nil {
		return 0
	}
	sum := fnv.New64a()
	err = filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return unlessGone(err)
		}
		content, err := contentOf(name, entry.Type())
		if err != nil {
			return unlessGone(err)
		}
		_, err = fmt.Fprintf(sum, "%q %d %s", strings.TrimPrefix(name, root), len(content), content)
		return err
	})
	if err != nil {
		return 0
	}
	return sum.Sum64()
}

// contentOf returns the content of a file or the target of a link, and nil for anything else.
func contentOf(name string, kind fs.FileMode) ([]byte, error) {
	switch {
	case kind.IsRegular():
		return os.ReadFile(name)
	case kind&fs.ModeSymlink != 0:
		target, err := os.Readlink(name)
		return []byte(target), err
	default:
		return nil, nil
	}
}

// unlessGone returns nil if the file no longer exists, such as an editor's temporary file. Otherwise it
// returns err.
func unlessGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Error says that the system does not report all changes, for example because its watches are used up. Watch then
// notices changes only by its next sum, within about 30 s.
type Error struct{ Err error }

// Error names the path and the cause.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Watch calls changed each time it finds that Sum(path) has changed, until ctx ends. seen is the sum that the caller
// knows, so changes before the call are found too. Watch calls failed with an *Error after which changes may be
// noticed late. It calls both from the goroutine that called it.
//
// It returns an error if the directory of path cannot be read, and nil when ctx has ended.
func Watch(ctx context.Context, path string, seen uint64, changed func(), failed func(error)) error {
	w := watch{every: lookAgain, open: fsnotify.NewWatcher, path: path, seen: seen, changed: changed, failed: failed}
	return w.run(ctx)
}

// watch is the state of Watch.
type watch struct {
	every   time.Duration // how long after a sum the next one is computed without an event
	open    func() (*fsnotify.Watcher, error)
	path    string
	seen    uint64
	changed func()
	failed  func(error)
	told    string // the last text that failed was called with
}

// late calls failed, unless its last call was for the same reason: each look at a path may fail.
func (w *watch) late(err error) {
	if text := err.Error(); text != w.told {
		w.told = text
		w.failed(&Error{fmt.Errorf("watch %s: %w", w.path, err)})
	}
}

func (w *watch) run(ctx context.Context) error {
	if _, err := os.ReadDir(filepath.Dir(w.path)); err != nil {
		return fmt.Errorf("watch %s: %w", w.path, err)
	}
	files, err := w.open()
	if err != nil {
		w.late(err)
		files = &fsnotify.Watcher{} // its channels are nil: only the sums are left
	} else {
		defer func() { _ = files.Close() }()
		if err := files.Add(filepath.Dir(w.path)); err != nil {
			w.late(err)
		}
	}
	quiet := time.NewTimer(0)
	defer quiet.Stop()
	var latest time.Time // deadline of the next look, even if events keep coming
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-quiet.C:
			latest = time.Time{}
			if files.Events != nil {
				w.reach(files) // before Sum, so that a change during Sum causes another event
			}
			if now := Sum(w.path); now != w.seen {
				w.seen = now
				w.changed()
			}
			quiet.Reset(w.every)
		case <-files.Events:
			if latest.IsZero() {
				latest = time.Now().Add(10 * settle)
			}
			quiet.Reset(min(settle, time.Until(latest)))
		case err := <-files.Errors:
			if !errors.Is(err, fsnotify.ErrEventOverflow) {
				w.late(err)
			}
			quiet.Reset(settle)
		}
	}
}

// reach follows the symlinks of the path and watches the result: the directory that contains it and, if it is a
// directory, that and all below it. The directory that contains path itself is watched already.
func (w *watch) reach(files *fsnotify.Watcher) {
	root, err := filepath.EvalSymlinks(w.path)
	if err != nil {
		return
	}
	dirs := []string{filepath.Dir(root)}
	// Errors are left to Sum, which returns 0 then.
	_ = filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			dirs = append(dirs, name)
		}
		return nil
	})
	watched := files.WatchList()
	for _, dir := range dirs {
		if slices.Contains(watched, dir) {
			continue
		}
		if err := unlessGone(files.Add(dir)); err != nil {
			w.late(err)
		}
	}
}
