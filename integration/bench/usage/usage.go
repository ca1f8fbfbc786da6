// Package usage measures what processes and Redis have used, for benchmarks that compare two moments, and reads
// the metrics of workers.
package usage

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// ticks is the number of /proc's units of CPU time per second, on every present Linux.
const ticks = 100

// CPU returns the CPU time that a process has used.
func CPU(pid int) (time.Duration, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name of the program, in parentheses, may contain blanks.
	_, rest, found := strings.Cut(string(data), ") ")
	fields := strings.Fields(rest)
	if !found || len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat cannot be read", pid)
	}
	user, err := strconv.Atoi(fields[11])
	if err != nil {
		return 0, err
	}
	system, err := strconv.Atoi(fields[12])
	return time.Duration(user+system) * time.Second / ticks, err
}

// OwnCPU returns the CPU time of this process.
func OwnCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Resident returns the resident memory of a process, in bytes.
func Resident(pid int) (int64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(data))
	if len(fields) < 2 {
		return 0, fmt.Errorf("/proc/%d/statm cannot be read", pid)
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize()), err
}

// Commands are numbers of commands of Redis.
type Commands struct {
	Sent     int // by clients: scripts, and the further commands in sent
	Executed int // all but INFO, with those that scripts run
}

// Minus returns the commands of c that came after those of before.
func (c Commands) Minus(before Commands) Commands {
	return Commands{c.Sent - before.Sent, c.Executed - before.Executed}
}

// sent are the commands that only clients send. HSCAN, which scripts run, too, is missing: the server does
// not count separately who ran it.
var sent = []string{"evalsha", "eval", "script|load", "scan", "ping", "subscribe", "publish"}

// CommandsOf returns the commands that a server of Redis has executed since its start.
func CommandsOf(ctx context.Context, server *redis.Client) (c Commands, err error) {
	stats, err := server.Info(ctx, "commandstats").Result()
	for line := range strings.Lines(stats) {
		name, values, _ := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		calls, _, found := strings.Cut(values, ",")
		n, notANumber := strconv.Atoi(calls)
		if !found || notANumber != nil || name == "info" {
			continue
		}
		c.Executed += n
		if slices.Contains(sent, name) {
			c.Sent += n
		}
	}
	return c, err
}
