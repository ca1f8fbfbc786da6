package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/hap-worker/hap-worker/cmd/daemon"
)

// asWorker is the argument with which this program is a hap-worker: the demo's workers
// are processes, and no other program has to be built for them.
const asWorker = "hap-worker"

// workIfAsked runs this program as a hap-worker, and ends it, where its first argument
// says so.
func workIfAsked() {
	if len(os.Args) < 2 || os.Args[1] != asWorker {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := daemon.Main(ctx, os.Args[2:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// workerCommand runs this program as a hap-worker. It is nil where the program's path
// is not known; the stack then builds a hap-worker.
func workerCommand() []string {
	self, err := os.Executable()
	if err != nil {
		return nil
	}
	return []string{self, asWorker}
}
