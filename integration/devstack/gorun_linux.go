package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

func init() { runtime.LockOSThread() } // prctl below binds the signal to this thread, which lives as long as the process

// endWithGoRun makes the kernel send SIGTERM to this process when `go run`, if that started it, ends: go run does not
// forward signals, so killing it would leave the stack running.
func endWithGoRun() {
	self, err := os.Executable()
	if err != nil || !strings.Contains(filepath.ToSlash(self), "/go-build") {
		return
	}
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_PDEATHSIG, uintptr(syscall.SIGTERM), 0)
	if os.Getppid() == 1 { // go run ended before prctl
		os.Exit(exitFailure)
	}
}
