// Package filewatch tells when what is at a path is another than it was: a file that
// an editor writes in several steps, a directory with all that is below it, or a mount
// of a ConfigMap, which the kubelet swaps behind links.
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

// settle is how long files must have been left alone before they are looked at: an
// editor writes in several steps, a ConfigMap is swapped by several renames.
const settle = 100 * time.Millisecond

// Sum is a checksum of what is at a path: the content of a file, or all names and contents
// below a directory, in which links are not followed. It is 0 where the path cannot be read.
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

// contentOf reads a file, or where a link leads; of anything else there is nothing to read.
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

// unlessGone leaves out what was there a moment ago, as an editor's own files.
func unlessGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Watch calls changed whenever the sum of what is at path is another than it was, seen
// being the first one, until ctx ends. A change between that and Watch is found too.
// failed is told of changes that may go unnoticed. Both are called one at a time, from
// this goroutine.
//
// The error is that of the file system where path cannot be watched; nil when ctx ended.
func Watch(ctx context.Context, path string, seen uint64, changed func(), failed func(error)) error {
	files, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch %s: %w", path, err)
	}
	defer func() { _ = files.Close() }()
	if err := files.Add(filepath.Dir(path)); err != nil {
		return fmt.Errorf("watch %s: %w", path, err)
	}
	quiet := time.NewTimer(0)
	defer quiet.Stop()
	var latest time.Time // a directory that is never quiet must not put the look off for ever
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-quiet.C:
			latest = time.Time{}
			reach(files, path, failed) // first: a change during the look makes another event
			if now := Sum(path); now != seen {
				seen = now
				changed()
			}
		case <-files.Events:
			if latest.IsZero() {
				latest = time.Now().Add(10 * settle)
			}
			quiet.Reset(min(settle, time.Until(latest)))
		case err := <-files.Errors:
			if !errors.Is(err, fsnotify.ErrEventOverflow) {
				failed(fmt.Errorf("watch %s: %w", path, err))
			}
			quiet.Reset(settle)
		}
	}
}

// reach also watches where path leads to: the directory of the file there, or the
// directory with those below it. That of path itself is watched from the beginning,
// and is enough for a file of a ConfigMap.
func reach(files *fsnotify.Watcher, path string, failed func(error)) {
	root, err := filepath.EvalSymlinks(path)
	if err != nil {
		return
	}
	dirs := []string{filepath.Dir(root)}
	// What cannot be read is the look's to tell.
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
			failed(fmt.Errorf("watch %s: %w", dir, err))
		}
	}
}
