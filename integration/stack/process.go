package stack

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// How long a process may take to stop before it is killed. A worker first drains, within its worker.drain (25
// s by default).
const (
	stopGrace   = 10 * time.Second
	workerGrace = 40 * time.Second
)

// command describes a process to start.
type command struct {
	name   string // in messages
	path   string
	args   []string
	env    []string      // nil: this process's environment
	stdout io.Writer     // nil: discarded
	stderr io.Writer     // nil: only the tail is kept, for messages
	talk   io.Writer     // gets a message if the process ends unexpectedly
	grace  time.Duration // Defaults to stopGrace.
}

// process is a child process. On Linux a signal of the kernel ends it with its parent. Elsewhere it ends then only
// if it stops at the end of its stdin (--until-eof), which is a pipe of the parent.
type process struct {
	name  string
	cmd   *exec.Cmd
	stdin io.Closer
	tail  *tail
	asked atomic.Bool // it was asked to end
	grace time.Duration
	done  chan struct{}
	err   error // of Wait; valid after done
}

func startProcess(c command) (*process, error) {
	p := &process{name: c.name, tail: &tail{}, done: make(chan struct{}), grace: cmp.Or(c.grace, stopGrace)}
	p.cmd = exec.Command(c.path, c.args...)
	p.cmd.Env = c.env
	p.cmd.Stdout = c.stdout
	p.cmd.Stderr = p.tail
	if c.stderr != nil {
		p.cmd.Stderr = io.MultiWriter(p.tail, c.stderr)
	}
	p.cmd.SysProcAttr = childAttributes()
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	p.stdin = stdin
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		if !p.asked.Load() {
			fmt.Fprintln(c.talk, "stack:", p.failure())
		}
		close(p.done)
	}()
	return p, nil
}

// startAnnouncing starts a process whose first line on stdout announces in JSON that it is ready. It decodes
// that line into into.
func startAnnouncing(ctx context.Context, c command, into any) (*process, error) {
	ready, stdout := io.Pipe()
	c.stdout = stdout
	p, err := startProcess(c)
	if err != nil {
		return nil, err
	}
	lines := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(ready).ReadString('\n')
		lines <- line
		_, _ = io.Copy(io.Discard, ready)
	}()
	go func() { // ends the reader above
		<-p.done
		_ = stdout.Close()
	}()
	select {
	case line := <-lines:
		var said struct {
			Ready bool `json:"ready"`
		}
		if err := errors.Join(json.Unmarshal([]byte(line), &said), json.Unmarshal([]byte(line), into)); err != nil || !said.Ready {
			p.kill()
			return nil, errors.Join(p.failure(), fmt.Errorf("%s did not say that it is ready, but %q", c.name, line))
		}
		return p, nil
	case <-ctx.Done():
		p.kill()
		return nil, fmt.Errorf("%s is not ready: %w", c.name, context.Cause(ctx))
	}
}

// stop asks the process to end. After its grace it kills the process, and returns an error. It returns when the
// process has ended. A nil or ended process is no error.
func (p *process) stop() error {
	if p == nil || p.ended() {
		return nil
	}
	p.asked.Store(true)
	// The process may have ended meanwhile.
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	timer := time.NewTimer(p.grace)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
		p.kill()
		return fmt.Errorf("%s did not stop within %s and was killed", p.name, p.grace)
	}
}

// kill ends the process at once, like a crash, and returns when it has ended.
func (p *process) kill() {
	if p == nil {
		return
	}
	p.asked.Store(true)
	_ = p.cmd.Process.Kill()
	<-p.done
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// failure describes a process that ended, or was killed, unexpectedly.
func (p *process) failure() error {
	err := p.err
	if err == nil {
		err = errors.New("it ended by itself")
	}
	if said := p.tail.String(); said != "" {
		return fmt.Errorf("%s: %w; it said last:\n%s", p.name, err, said)
	}
	return fmt.Errorf("%s: %w", p.name, err)
}

// await calls ask until it returns nil, or until the process or ctx ends.
func (p *process) await(ctx context.Context, ask func(context.Context) error) error {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		last := ask(ctx)
		if last == nil {
			return nil
		}
		select {
		case <-p.done:
			return p.failure()
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w: %w", p.name, context.Cause(ctx), last)
		case <-ticker.C:
		}
	}
}

// tail keeps the last tailSize bytes that are written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

// tailSize is in bytes.
const tailSize = 4 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - tailSize; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.buf))
}
