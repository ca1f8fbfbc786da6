// Command demo shows hap-worker without containers: it starts NATS, Redis, a Kubernetes API with demo
// accounts and two workers, and tells five short stories. On a terminal it then keeps the stack running until
// Ctrl-C.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/term"

	"github.com/hap-worker/hap-worker/events/requests"
	"github.com/hap-worker/hap-worker/integration/stack"
)

func main() {
	workIfAsked()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Stdout, term.IsTerminal(int(os.Stdout.Fd())))
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// run tells the stories. If stay is set, it keeps the stack until ctx ends. An interrupted run is not an
// error.
func run(ctx context.Context, out io.Writer, stay bool) (err error) {
	begin := time.Now()
	fmt.Fprintln(out, "Starting NATS, Redis, a Kubernetes API with demo accounts, and two workers.")
	config, err := settings()
	if err != nil {
		return err
	}
	s, err := stack.Start(ctx, stack.Options{Workers: 2, WorkerCommand: workerCommand(), Config: config})
	if err != nil {
		return unlessInterrupted(ctx, err)
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	fmt.Fprintf(out, "Ready after %.1f s. Redis: %s. Kubernetes API: %s.\n",
		time.Since(begin).Seconds(), s.Summary().RedisKind, s.Summary().Gardener)

	nc, err := nats.Connect(s.NATS.URL(), nats.MaxReconnects(-1))
	if err != nil {
		return err
	}
	defer nc.Close()
	client, err := requests.NewClient(nc, requests.ClientOptions{Source: "/demo"})
	if err != nil {
		return err
	}
	defer client.Close()
	d := &demo{ctx: ctx, out: out, client: client, stack: s}
	if err := d.tell(); err != nil {
		return unlessInterrupted(ctx, err)
	}
	if stay {
		d.invite()
		<-ctx.Done()
		fmt.Fprintln(out, "\nStopping.")
	}
	return nil
}

// unlessInterrupted returns nil instead of err if the user has ended the demo.
func unlessInterrupted(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}

// invite prints commands to try in another terminal.
func (d *demo) invite() {
	sum := d.stack.Summary()
	fmt.Fprintf(d.out, `
The stack keeps running. Operations page: %s
Build hapctl with "make build", then paste into another terminal:

  export HAP_NATS_URL=%s HAP_REDIS_URL=%s KUBECONFIG=%s
  bin/hapctl pools
  bin/hapctl provision --runtime rt-mine --global-account ga-mine --plan aws
  bin/hapctl explain rt-mine

Ctrl-C stops everything.
`, sum.Workers[0], sum.NATS, sum.Redis, sum.Kubeconfig)
}
