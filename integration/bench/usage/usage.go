// Package usage measures what processes and Redis have used, for benchmarks that compare two moments.
package usage

import (
	"context"
	"fmt"
	"os"
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

// Commands returns the number of commands that a server of Redis has executed, those of scripts among them, but
// for INFO, which counts them.
func Commands(ctx context.Context, server *redis.Client) (int, error) {
	stats, err := server.Info(ctx, "commandstats").Result()
	commands := 0
	for line := range strings.Lines(stats) {
		_, values, _ := strings.Cut(line, ":calls=")
		calls, _, found := strings.Cut(values, ",")
		if n, err := strconv.Atoi(calls); found && err == nil && !strings.HasPrefix(line, "cmdstat_info") {
			commands += n
		}
	}
	return commands, err
}
