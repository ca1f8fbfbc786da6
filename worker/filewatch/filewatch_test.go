package filewatch

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/hap-worker/hap-worker/engine/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// watched is a watched path, with its sums at the calls of changed.
type watched struct {
	t    *testing.T
	path string
	sums chan uint64
}

// watches computes the sum, runs before, and starts Watch.
func watches(t *testing.T, path string, before func()) *watched {
	t.Helper()
	return watchAgain(t, lookAgain, path, before)
}

func watchAgain(t *testing.T, every time.Duration, path string, before func()) *watched {
	t.Helper()
	return watchBy(t, fsnotify.NewWatcher, every, path, before, func(err error) { t.Errorf("failed with %v", err) })
}

func watchBy(t *testing.T, open func() (*fsnotify.Watcher, error), every time.Duration, path string, before func(), failed func(error)) *watched {
	t.Helper()
	w := &watched{t: t, path: path, sums: make(chan uint64, 16)}
	seen := Sum(path)
	if before != nil {
		before()
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() {
		to := watch{every: every, open: open, path: path, seen: seen, changed: func() { w.sums <- Sum(path) }, failed: failed}
		ended <- to.run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the watch ended with %v", err)
		}
	})
	return w
}

// changes runs a function, and waits until the change is noticed.
func (w *watched) changes(what string, do func()) {
	w.t.Helper()
	do()
	deadline := time.After(10 * time.Second)
	for want := Sum(w.path); ; {
		select {
		case got := <-w.sums:
			if got == want {
				return
			}
		case <-deadline:
			w.t.Fatalf("%s: no change was seen", what)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// write replaces a file in one step, as careful editors do.
func write(t *testing.T, content string, elements ...string) {
	t.Helper()
	path := filepath.Join(elements...)
	must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must(t, os.WriteFile(path+".next", []byte(content), 0o600))
	must(t, os.Rename(path+".next", path))
}

// mount is the mount of a ConfigMap: its files are links that lead through another link.
func mount(t *testing.T) (dir string, swap func(version, content string)) {
	t.Helper()
	dir = t.TempDir()
	must(t, os.Symlink(filepath.Join("..data", "a.yaml"), filepath.Join(dir, "a.yaml")))
	return dir, func(version, content string) {
		t.Helper()
		old, _ := os.Readlink(filepath.Join(dir, "..data"))
		write(t, content, dir, version, "a.yaml")
		must(t, os.Symlink(version, filepath.Join(dir, "..data_tmp")))
		must(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
		if old != "" {
			must(t, os.RemoveAll(filepath.Join(dir, old)))
		}
	}
}

// TestWatchConfigMap swaps the target of the link, as the kubelet does.
func TestWatchConfigMap(t *testing.T) {
	t.Parallel()
	for name, path := range map[string]string{"a file of it": "a.yaml", "all of it": "."} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, swap := mount(t)
			swap("..2026_1", "one")
			w := watches(t, filepath.Join(dir, path), nil)
			for _, version := range []string{"..2026_2", "..2026_3", "..2026_4"} {
				w.changes(version, func() { swap(version, version) })
			}
		})
	}
}

// TestWatchFollowsALink: the path is a link to a file in another directory, which changes before Watch starts.
func TestWatchFollowsALink(t *testing.T) {
	t.Parallel()
	target, link := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "a")
	write(t, "one", target)
	must(t, os.Symlink(target, link))
	w := watches(t, link, func() { write(t, "two", target) })
	w.changes("before", func() {})
	w.changes("after", func() { write(t, "three", target) })
	w.changes("another link", func() {
		write(t, "four", target+"-2")
		must(t, os.Symlink(target+"-2", link+".next"))
		must(t, os.Rename(link+".next", link))
	})
	w.changes("behind the other link", func() { write(t, "five", target+"-2") })
}

// TestWatchTree is a directory with others below it, which come and go.
func TestWatchTree(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "catalog")
	write(t, "one", dir, "below", "a")
	w := watches(t, dir, nil)
	for _, step := range []struct {
		what string
		do   func()
	}{
		{"a file below", func() { write(t, "two", dir, "below", "a") }},
		{"a new directory", func() { write(t, "one", dir, "new", "deep", "b") }},
		{"a file in the new directory", func() { write(t, "two", dir, "new", "deep", "b") }},
		{"a file that is renamed", func() { must(t, os.Rename(filepath.Join(dir, "below", "a"), filepath.Join(dir, "below", "c"))) }},
		{"a directory that goes", func() { must(t, os.RemoveAll(filepath.Join(dir, "new"))) }},
		{"all of it goes", func() { must(t, os.RemoveAll(dir)) }},
		{"it is there again", func() { write(t, "three", dir, "below", "a") }},
		{"a file of what is there again", func() { write(t, "four", dir, "below", "a") }},
	} {
		w.changes(step.what, func() { step.do() })
	}
}

// TestWatchLooksAgain: a path that was gone with its directory when it was looked for is found without an event.
func TestWatchLooksAgain(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "etc")
	path := filepath.Join(dir, "a")
	write(t, "one", path)
	w := watchAgain(t, 2*settle, path, nil)
	w.changes("it changes", func() { write(t, "more", path) }) // so the watch has begun
	w.changes("its directory goes", func() { must(t, os.RemoveAll(dir)) })
	w.changes("it is there again", func() { write(t, "two", path) })
	w.changes("it changes again", func() { write(t, "three", path) })
}

// TestWatchIsNotPutOffByABusyDirectory: a change is noticed although other files change all the time.
func TestWatchIsNotPutOffByABusyDirectory(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a")
	write(t, "one", path)
	w := watches(t, path, nil)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				_ = os.WriteFile(path+".log", nil, 0o600)
			}
		}
	}()
	w.changes("in a busy directory", func() { write(t, "two", path) })
	close(stop)
	<-stopped
}

func TestWatchOfADirectoryThatIsNotThere(t *testing.T) {
	t.Parallel()
	err := Watch(context.Background(), filepath.Join(t.TempDir(), "none", "a"), 0, nil, nil)
	if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fsnotify.ErrNonExistentWatch) {
		t.Errorf("ended with %v", err)
	}
}

// TestSum: the sum changes with names and contents only.
func TestSum(t *testing.T) {
	t.Parallel()
	sum := func(files map[string]string) uint64 {
		dir := t.TempDir()
		for name, content := range files {
			if target, link := files[name+"@"]; link {
				must(t, os.Symlink(target, filepath.Join(dir, name)))
			} else if name[len(name)-1] != '@' {
				write(t, content, dir, name)
			}
		}
		return Sum(dir)
	}
	one := sum(map[string]string{"a": "1", "b/c": "2"})
	if again := sum(map[string]string{"a": "1", "b/c": "2"}); again != one || one == 0 {
		t.Errorf("the same in another place is %d, want %d", again, one)
	}
	for what, files := range map[string]map[string]string{
		"another content":   {"a": "1", "b/c": "3"},
		"another name":      {"a": "1", "b/d": "2"},
		"another directory": {"a": "1", "c/c": "2"},
		"one less":          {"a": "1"},
		"a link":            {"a": "", "a@": "b/c", "b/c": "2"},
	} {
		if other := sum(files); other == one || other == 0 {
			t.Errorf("%s: %d, and %d before", what, other, one)
		}
	}
	if none := Sum(filepath.Join(t.TempDir(), "none")); none != 0 {
		t.Errorf("what is not there has the sum %d", none)
	}
}

// TestWatchesAreUsedUp: where the system has no watches left, changes are noticed by the sums, and it is said once that
// they are noticed late.
func TestWatchesAreUsedUp(t *testing.T) {
	t.Parallel()
	usedUp := func() (*fsnotify.Watcher, error) { return nil, syscall.EMFILE }
	path := filepath.Join(t.TempDir(), "a")
	write(t, "one", path)
	told := make(chan error, 10)
	w := watchBy(t, usedUp, 50*time.Millisecond, path, nil, func(err error) { told <- err })
	w.changes("a change", func() { write(t, "two", path) })
	w.changes("another one", func() { write(t, "three", path) })
	if len(told) != 1 {
		t.Fatalf("told %d times", len(told))
	}
	err := <-told
	if _, late := errors.AsType[*Error](err); !late || !errors.Is(err, syscall.EMFILE) || !strings.Contains(err.Error(), "watch "+path) {
		t.Errorf("%T %v", err, err)
	}
}
