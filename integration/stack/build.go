package stack

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// unused is the age from which on an unused cached binary is removed.
const unused = 7 * 24 * time.Hour

// program is a Go program that the stack builds.
type program struct {
	name    string
	module  string   // directory of its module
	target  string   // package, as go build takes it
	sources []string // files and directories below module that the binary depends on
	flags   []string // further flags of go build
	hint    string   // a note about the first build
}

// asInImages compiles large programs with the flags of the images, so that their packages are compiled once
// for both. The worker is compiled with the flags of the tests, so that it only has to be linked.
var asInImages = []string{"-trimpath"}

// kubeapiProgram is the Kubernetes API of integration/kubeapi.
func kubeapiProgram(root string) program {
	return program{
		name:    "kubeapi",
		module:  filepath.Join(root, "integration", "kubeapi"),
		target:  ".",
		sources: []string{"."},
		flags:   asInImages,
		hint:    "once per change; the first build compiles Kubernetes and takes some minutes",
	}
}

// gardenerapiProgram is Gardener's own API server.
func gardenerapiProgram(root string) program {
	return program{
		name:    "gardenerapi",
		module:  filepath.Join(root, "integration", "gardenerapi"),
		target:  ".",
		sources: []string{"."},
		flags:   asInImages,
		hint:    "once per change; the first build compiles Gardener and takes some minutes",
	}
}

// workerProgram is the daemon.
func workerProgram(root string) program {
	return program{
		name:    "hap-worker",
		module:  root,
		target:  "./cmd/hap-worker",
		sources: []string{"go.mod", "go.sum", "cmd", "worker", "engine", "events", "ledger", "counters", "gardener", "deploy"},
		hint:    "once per change",
	}
}

// Root returns the directory of the checkout that this package was compiled from.
func Root() (string, error) {
	_, file, _, _ := runtime.Caller(0)
	root := filepath.Dir(filepath.Dir(filepath.Dir(file)))
	if _, err := os.Stat(filepath.Join(root, "integration", "kubeapi", "go.mod")); err != nil {
		return "", fmt.Errorf("the stack builds its parts from the sources, which are not at %q: run it from a checkout, not with -trimpath", root)
	}
	return root, nil
}

// Build returns the path of the named program, kubeapi, gardenerapi or hap-worker, as a static binary of this
// checkout. It is cached in the user's cache directory by a hash of its sources. If HAP_WITHOUT_SERVERS is
// set, as by make test, kubeapi and gardenerapi are an error.
func Build(ctx context.Context, name string, talk io.Writer) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	if name != "hap-worker" && os.Getenv("HAP_WITHOUT_SERVERS") != "" {
		return "", fmt.Errorf("HAP_WITHOUT_SERVERS is set, and %s is to be built: a test that needs it is named TestReal…, and runs in make test-all", name)
	}
	switch name {
	case "kubeapi":
		return kubeapiProgram(root).build(ctx, talk)
	case "gardenerapi":
		return gardenerapiProgram(root).build(ctx, talk)
	case "hap-worker":
		return BuildWorker(ctx, root, talk)
	default:
		return "", fmt.Errorf("no program %q: kubeapi, gardenerapi or hap-worker", name)
	}
}

// BuildWorker returns the path of hap-worker as Build does, but of the sources at root, such as another commit's.
func BuildWorker(ctx context.Context, root string, talk io.Writer) (string, error) {
	return workerProgram(root).build(ctx, talk)
}

func (p program) build(ctx context.Context, talk io.Writer) (string, error) {
	key, err := p.key()
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "hap-worker", "bin")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	binary := filepath.Join(dir, p.name+"-"+key)
	if used(binary) {
		return binary, nil
	}
	unlock, err := lock(ctx, filepath.Join(dir, p.name+".lock"), func() {
		fmt.Fprintf(talk, "stack: waiting for another build of %s\n", p.name)
	})
	if err != nil {
		return "", err
	}
	defer unlock()
	if used(binary) { // built by the process that held the lock
		return binary, nil
	}
	if err := p.compile(ctx, binary, talk); err != nil {
		return "", err
	}
	return binary, p.prune(dir)
}

func (p program) compile(ctx context.Context, binary string, talk io.Writer) error {
	fmt.Fprintf(talk, "stack: building %s (%s)\n", p.name, p.hint)
	start := time.Now()
	part := fmt.Sprintf("%s.part%d", binary, os.Getpid())
	args := slices.Concat([]string{"build", "-ldflags=-s -w", "-o", part}, p.flags, []string{p.target})
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = p.module
	// With the caller's PWD, go might find a go.work, which is not part of the key.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "PWD="+p.module)
	cmd.SysProcAttr = childAttributes()
	// The compilers are children of go, so the whole process group has to end.
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = stopGrace
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		return errors.Join(fmt.Errorf("build %s: %w\n%s", p.name, err, bytes.TrimSpace(said.Bytes())), remove(part))
	}
	fmt.Fprintf(talk, "stack: built %s in %.0f s\n", p.name, time.Since(start).Seconds())
	return os.Rename(part, binary)
}

// key is a hash of the sources, Go's version and the platform.
func (p program) key() (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	for _, source := range p.sources {
		err := filepath.WalkDir(filepath.Join(p.module, source), func(path string, d fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return nil // a folder that this module does not have, or a file that was deleted meanwhile
			case err != nil:
				return err
			case d.IsDir() && d.Name() == "testdata":
				return filepath.SkipDir
			case !d.Type().IsRegular() || strings.HasSuffix(path, "_test.go"):
				return nil
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			name, err := filepath.Rel(p.module, path)
			fmt.Fprintf(h, "%s %x\n", name, sha256.Sum256(data))
			return err
		})
		if err != nil {
			return "", fmt.Errorf("sources of %s: %w", p.name, err)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:8]), nil
}

// prune removes binaries of the program that were not used for a week.
func (p program) prune(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, p.name+"-*"))
	if err != nil {
		return err
	}
	for _, file := range files {
		info, err := os.Stat(file)
		if err == nil && time.Since(info.ModTime()) > unused {
			err = remove(file)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// used reports whether the file exists, and sets its time to now.
func used(file string) bool {
	now := time.Now()
	return os.Chtimes(file, now, now) == nil
}

func remove(file string) error {
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// lock locks the file for this process. The kernel releases the lock when the process ends.
func lock(ctx context.Context, file string, waiting func()) (unlock func(), err error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for said := false; ; said = true {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", file, err), f.Close())
		}
		if !said {
			waiting()
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), f.Close())
		case <-ticker.C:
		}
	}
}
