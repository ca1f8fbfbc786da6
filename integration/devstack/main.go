// Command devstack runs the development stack until SIGINT or SIGTERM, or with
// --until-eof until the end of stdin. See docs/development.md.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/hap-worker/hap-worker/integration/stack"
)

// The exit codes are those of hapctl.
const (
	exitFailure = 1
	exitUsage   = 2
)

// usageError is an error in the command line.
type usageError struct{ error }

func main() {
	endWithGoRun()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command().ExecuteContext(ctx)
	cancel()
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "devstack:", err)
	if _, ok := errors.AsType[usageError](err); ok {
		os.Exit(exitUsage)
	}
	os.Exit(exitFailure)
}

// flags are the command line.
type flags struct {
	json      bool
	config    string
	accounts  string
	noWorker  bool
	workers   int
	gardener  string
	natsPort  int
	redisPort int
	untilEOF  bool
}

func command() *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "devstack",
		Short: "Start NATS, Redis, a Kubernetes API with the Gardener kinds, demo accounts and workers",
		Long: `Start NATS, Redis, a Kubernetes API with the Gardener kinds, demo accounts and
workers, without containers, and run until SIGINT. Nothing is kept at the end.`,
		Args:          noArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), os.Stdin, os.Stdout, os.Stderr)
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	fs := cmd.Flags()
	fs.BoolVar(&f.json, "json", false, "print one JSON line on stdout when everything is ready")
	fs.StringVar(&f.config, "config", "", "configuration of the workers; the stack's addresses are set in a copy of it")
	fs.StringVar(&f.accounts, "accounts", "", "YAML list of {name, hyperscalerType, labels, kind, clusters} instead of the demo accounts")
	fs.BoolVar(&f.noWorker, "no-worker", false, "start no worker")
	fs.IntVar(&f.workers, "workers", 1, "number of workers")
	fs.StringVar(&f.gardener, "gardener", stack.LightGardener, "how the Gardener kinds are served: light, by an API in this process; crd, as CRDs of a kube-apiserver; real, by gardener-apiserver")
	fs.IntVar(&f.natsPort, "nats-port", 0, "port of NATS (default a free one)")
	fs.IntVar(&f.redisPort, "redis-port", 0, "port of Redis (default a free one)")
	fs.BoolVar(&f.untilEOF, "until-eof", false, "stop at the end of stdin")
	return cmd
}

func noArgs(cmd *cobra.Command, args []string) error {
	if err := cobra.NoArgs(cmd, args); err != nil {
		return usageError{err}
	}
	if cmd.Flags().Changed("no-worker") && cmd.Flags().Changed("workers") {
		return usageError{errors.New("--no-worker and --workers: give one of them")}
	}
	return nil
}

func (f flags) run(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) error {
	o, err := f.options(stderr)
	if err != nil {
		return err
	}
	if f.untilEOF {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		go func() {
			// An error on stdin counts as its end.
			_, _ = io.Copy(io.Discard, stdin)
			cancel()
		}()
	}
	s, err := stack.Start(ctx, o)
	if err != nil {
		if ctx.Err() != nil { // stopped while starting
			return nil
		}
		return err
	}
	err = f.announce(s.Summary(), stdout, stderr)
	if err == nil {
		<-ctx.Done()
	}
	return errors.Join(err, s.Stop())
}

// options converts the flags, and reads the files that they name.
func (f flags) options(stderr io.Writer) (stack.Options, error) {
	o := stack.Options{
		Workers: f.workers, Gardener: f.gardener, NATSPort: f.natsPort, RedisPort: f.redisPort, Talk: stderr, WorkerLog: stderr,
	}
	if f.noWorker {
		o.Workers = 0
	}
	switch {
	case !slices.Contains([]string{stack.LightGardener, stack.CRDGardener, stack.RealGardener}, f.gardener):
		return o, usageError{fmt.Errorf("--gardener %s: light, crd or real", f.gardener)}
	case f.workers < 0:
		return o, usageError{fmt.Errorf("--workers %d: 0 or more", f.workers)}
	}
	var err error
	if f.config != "" {
		if o.Config, err = os.ReadFile(f.config); err != nil {
			return o, usageError{err}
		}
	}
	if f.accounts != "" {
		data, err := os.ReadFile(f.accounts)
		if err != nil {
			return o, usageError{err}
		}
		if o.Accounts, err = stack.ReadAccounts(data); err != nil {
			return o, fmt.Errorf("%s: %w", f.accounts, err)
		}
	}
	return o, nil
}

func (f flags) announce(s stack.Summary, stdout, stderr io.Writer) error {
	if f.json {
		return json.NewEncoder(stdout).Encode(s)
	}
	_, err := fmt.Fprintf(stderr, `ready; Ctrl-C stops it

  export HAP_NATS_URL=%s HAP_REDIS_URL=%s KUBECONFIG=%s

configuration  %s
namespace      %s (%s)
redis          %s
workers        %v
`, s.NATS, s.Redis, s.Kubeconfig, s.Config, s.Namespace, s.Resource, s.RedisKind, s.Workers)
	return err
}
