package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/hap-worker/hap-worker/cmd/daemon"
)

// asWorker is the argument with which this program runs as a hap-worker, so that no other program has to be
// built for the demo's workers.
const asWorker = "hap-worker"

// workIfAsked runs this program as a hap-worker, and exits, if its first argument is asWorker.
func workIfAsked() {
	if len(os.Args) < 2 || os.Args[1] != asWorker {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := daemon.Main(ctx, os.Args[2:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// workerCommand is the command that runs this program as a hap-worker. It is nil if the program's path is
// unknown; the stack then builds a hap-worker.
func workerCommand() []string {
	self, err := os.Executable()
	if err != nil {
		return nil
	}
	return []string{self, asWorker}
}
