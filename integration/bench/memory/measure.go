package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hap-worker/hap-worker/integration/stack"
)

// quiet is the time from when the worker is ready, during which collections do not count.
const quiet = time.Minute

// begun is the time from when the worker is ready until it is watched while idle: five minutes after its start it
// makes a second pass over the network ranges, and after ten to eleven it audits.
const begun = 15 * time.Minute

// patience is how long a worker may take to be ready and to collect.
const patience = 30 * time.Minute

// measure starts a worker, waits for a collection, compares the resident set with the limits, and then watches the
// worker while it is idle.
func measure(ctx context.Context, s *stack.Stack, o settings) error {
	waiting, cancel := context.WithTimeoutCause(ctx, patience, errors.New("the worker is not ready, or did not collect"))
	defer cancel()
	log := &collections{seen: make(chan string, 1)}
	start := time.Now()
	env := []string{"GODEBUG=gctrace=1"}
	if o.memoryLimit > 0 {
		env = append(env, fmt.Sprintf("GOMEMLIMIT=%dMiB", o.memoryLimit))
	}
	w, err := s.AddWorker(waiting, log, env...)
	if err != nil {
		return err
	}
	fmt.Printf("ready after %s, %d MB resident, at most %d MB so far\n", time.Since(start).Round(100*time.Millisecond), resident(w, "VmRSS"), resident(w, "VmHWM"))
	ready := time.Now()
	for {
		select {
		case line := <-log.seen:
			if time.Since(ready) < quiet {
				continue
			}
			fmt.Printf("%s\nat most %d MB of heap were in use after a collection\n", line, log.most.Load())
			err := errors.Join(o.judge(settled(waiting, w), w), pause(ctx, begun-time.Since(ready)))
			_, failed := o.idling(ctx, s, w)
			return errors.Join(err, failed, o.judgeMost(w, log.most.Load()))
		case <-waiting.Done():
			return context.Cause(waiting)
		}
	}
}

func (o settings) judge(rss int, w *stack.Worker) error {
	fmt.Printf("after the collection %d MB resident, at most %d MB before; the limit is %d MB\n", rss, resident(w, "VmHWM"), o.limit)
	if rss == 0 || rss >= o.limit {
		return fmt.Errorf("%d MB are resident, the limit is %d MB", rss, o.limit)
	}
	return nil
}

// judgeMost compares the most that was resident, passes over the network ranges and the audit included, with the memory
// limit.
func (o settings) judgeMost(w *stack.Worker, live int64) error {
	most := resident(w, "VmHWM")
	fmt.Printf("in all at most %d MB were resident, and %d MB of heap in use after a collection\n", most, live)
	if o.memoryLimit > 0 && most >= o.memoryLimit {
		return fmt.Errorf("%d MB were resident, and a container of %d MiB would have been killed", most, o.memoryLimit)
	}
	return nil
}

// pause waits for a while, or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// settled returns the resident set in MiB, once it has not fallen for 75 s or ctx has ended: Go's runtime returns
// freed memory to the system little by little.
func settled(ctx context.Context, w *stack.Worker) int {
	last, same := resident(w, "VmRSS"), 0
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for same < 75 {
		select {
		case <-ctx.Done():
			return last
		case <-ticker.C:
		}
		if now := resident(w, "VmRSS"); now < last {
			last, same = now, 0
		} else {
			same++
		}
	}
	return last
}

// resident returns the number in a line of the worker's /proc/PID/status in MiB, 0 if it cannot be read.
func resident(w *stack.Worker, line string) int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", w.PID()))
	if err != nil {
		return 0
	}
	found := regexp.MustCompile(`(?m)^` + line + `:\s*(\d+) kB`).FindSubmatch(status)
	if found == nil {
		return 0
	}
	kB, err := strconv.Atoi(string(found[1]))
	if err != nil {
		return 0
	}
	return kB / 1024
}

// inUse finds in the report of a collection how many MB of heap were live after it.
var inUse = regexp.MustCompile(`^gc .*->(\d+) MB,`)

// collections reads the report of every garbage collection in a worker's log; Go's runtime collects at least every
// two minutes.
type collections struct {
	mu   sync.Mutex
	rest bytes.Buffer
	seen chan string  // the next report; further ones are dropped until it is received
	most atomic.Int64 // the most MB of live heap after a collection
}

func (c *collections) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rest.Write(p)
	for {
		line, err := c.rest.ReadString('\n')
		if errors.Is(err, io.EOF) {
			c.rest.Reset()
			c.rest.WriteString(line)
			return len(p), nil
		}
		if found := inUse.FindStringSubmatch(line); found != nil {
			used, _ := strconv.ParseInt(found[1], 10, 64) // it is a number
			c.most.Store(max(used, c.most.Load()))
			select {
			case c.seen <- strings.TrimSpace(line):
			default:
			}
		}
	}
}
