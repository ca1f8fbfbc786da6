package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/document"
	"github.com/hap-worker/hap-worker/worker/build"
	"github.com/hap-worker/hap-worker/worker/config"
)

// Main is the program: it reads the command line and returns the exit code. It changes globals of
// the process, such as the logger of client-go. Tests that share their process call Run and Exit
// instead.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := command(stdout, stderr)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return Exit(root.ExecuteContext(ctx), stderr)
}

// Exit writes err to stderr unless it is nil, and returns its exit code.
func Exit(err error, stderr io.Writer) int {
	var invalid document.Faults
	var foreign *engine.ForeignError
	var usage usageError
	switch {
	case err == nil:
		return ExitDone
	case errors.As(err, &invalid):
		fmt.Fprintln(stderr, err)
		return ExitInvalidConfig
	case errors.As(err, &foreign):
		fmt.Fprintf(stderr, "hap-worker: %v\n", err)
		return ExitInvalidConfig
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "hap-worker: %v\nRun hap-worker --help for usage.\n", err)
		return ExitUsage
	default:
		fmt.Fprintf(stderr, "hap-worker: %v\n", err)
		return ExitFailure
	}
}

type usageError struct{ error }

func command(stdout, stderr io.Writer) *cobra.Command {
	var path string
	root := &cobra.Command{
		Use:   "hap-worker [--config FILE]",
		Short: "Allots hyperscaler accounts to new clusters",
		Long: `hap-worker takes provision, deprovision, release and resolve events from NATS
JetStream, decides with the HAP rules which account serves each, counts in Redis, claims in
Gardener, and publishes the answer. Any number of workers share the work.

It runs until SIGINT or SIGTERM, and then finishes what it has begun. Every key
of the configuration can also be set in the environment: nats.url is HAP_NATS_URL.
Exit codes: 0 stopped in order, 1 failure, 2 usage, 3 invalid configuration, or one
that leads to another landscape's Redis or streams.`,
		Args:          noArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return Run(cmd.Context(), Options{ConfigPath: path, Log: stderr, Version: Version(), Process: true})
		},
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.PersistentFlags().StringVar(&path, "config", os.Getenv("HAP_CONFIG"), "configuration `FILE`, YAML (environment: HAP_CONFIG); without one, defaults and environment")
	root.AddCommand(&cobra.Command{
		Use: "config", Short: "Print the configuration in effect, secrets hidden", Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			cfg, err := config.Load(path, os.Environ())
			if err != nil {
				return err
			}
			for _, warning := range cfg.Warnings() {
				fmt.Fprintln(stderr, "warning:", warning)
			}
			_, err = stdout.Write(cfg.Effective())
			return err
		},
	}, &cobra.Command{
		Use: "version", Short: "Print the version", Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(stdout, "hap-worker", Version())
			return err
		},
	}, healthcheck())
	return root
}

func noArgs(cmd *cobra.Command, args []string) error {
	if err := cobra.NoArgs(cmd, args); err != nil {
		return usageError{err}
	}
	return nil
}

// healthcheck returns the command that asks a running worker whether it is ready: a container may have no
// other program that can ask.
func healthcheck() *cobra.Command {
	var url string
	c := &cobra.Command{
		Use: "healthcheck", Short: "Ask the worker of this machine whether it is ready", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), 5*time.Second)
			defer cancel()
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
			if err != nil {
				return usageError{err}
			}
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				return err
			}
			defer func() { _ = response.Body.Close() }()
			report, err := io.ReadAll(io.LimitReader(response.Body, 1<<16))
			if err != nil {
				return err
			}
			if response.StatusCode != http.StatusOK {
				return fmt.Errorf("%s answers %s: %s", url, response.Status, report)
			}
			_, err = cmd.OutOrStdout().Write(report)
			return err
		},
	}
	c.Flags().StringVar(&url, "url", "http://127.0.0.1:8080/readyz", "`URL` of the worker's readiness check")
	return c
}

// Version returns the version of the module, else the commit of the build, else "development".
func Version() string {
	switch built := build.Read(); {
	case built.Version != "":
		return built.Version
	case built.Revision != "":
		return "commit " + built.Revision
	default:
		return "development"
	}
}
