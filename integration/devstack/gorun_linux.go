package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

func init() { runtime.LockOSThread() } // main stays on the first thread, which lives as long as the process

// endWithGoRun has the kernel send SIGTERM when `go run` is gone: it hands no
// signal on to what it runs, so killing it would leave the stack behind.
func endWithGoRun() {
	self, err := os.Executable()
	if err != nil || !strings.Contains(filepath.ToSlash(self), "/go-build") {
		return
	}
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_PDEATHSIG, uintptr(syscall.SIGTERM), 0)
	if os.Getppid() == 1 { // gone before the kernel knew
		os.Exit(exitFailure)
	}
}
