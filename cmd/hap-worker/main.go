// Command hap-worker allots hyperscaler accounts to new clusters.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/hap-worker/hap-worker/cmd/daemon"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := daemon.Main(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
