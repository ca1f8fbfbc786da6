// Command gardenerapi is Gardener's own API server, which serves CredentialsBindings, SecretBindings and
// Shoots in every landscape, with its validation and admission. It runs behind a kubeapi, and stores its
// objects in the kubeapi's etcd. There is no controller manager, no scheduler and no gardenlet: no controller
// acts on the objects.
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

	"github.com/spf13/cobra"
)

// config has the values of the flags.
type config struct {
	data       string // directory of key and certificate
	kubeconfig string // of the kubeapi in front
	etcd       string // URL
	bind       string // address to listen on
	port       int    // 0: a free one
	untilEOF   bool
	grace      time.Duration
	startup    time.Duration
	apiserver  []string // passed on to gardener-apiserver
}

func main() {
	if err := command().ExecuteContext(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "gardenerapi:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	var c config
	cmd := &cobra.Command{
		Use:   "gardenerapi --data DIR --kubeconfig FILE --etcd URL [flags] [-- GARDENER-APISERVER-FLAGS]",
		Short: "Gardener's API server, behind a kubeapi",
		Long: `Gardener's API server, behind a kubeapi.

Once /readyz is ok, one JSON line on stdout says on which port. It serves nobody
until APIServices of the kubeapi name it. It runs until SIGINT or SIGTERM, and logs
to stderr. Flags after -- go to gardener-apiserver and win over those set here.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(_ *cobra.Command, args []string) error {
			c.apiserver = args
			return run(c)
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.data, "data", "", "directory for key and certificate; kept at the end (required)")
	f.StringVar(&c.kubeconfig, "kubeconfig", "", "kubeconfig of the kubeapi (required)")
	f.StringVar(&c.etcd, "etcd", "", "URL of the kubeapi's etcd (required)")
	f.StringVar(&c.bind, "bind", "127.0.0.1", "address to listen on")
	f.IntVar(&c.port, "port", 0, "port to listen on; 0 takes a free one")
	f.BoolVar(&c.untilEOF, "until-eof", false, "stop at the end of stdin, so that it dies with who started it")
	f.DurationVar(&c.grace, "grace", 3*time.Second, "how long a stop waits for open requests and watches")
	f.DurationVar(&c.startup, "startup", time.Minute, "how long a start may take")
	for _, name := range []string{"data", "kubeconfig", "etcd"} {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err)
		}
	}
	cmd.AddCommand(healthcheckCommand())
	return cmd
}

// healthcheckCommand returns the command that checks whether a running gardenerapi is ready: the health check of
// a container whose image has only this program.
func healthcheckCommand() *cobra.Command {
	var address string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "healthcheck",
		Short: "Exit 0 if the server is ready",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return ready(ctx, address)
		},
	}
	cmd.Flags().StringVar(&address, "address", "127.0.0.1:8443", "host:port of the server")
	cmd.Flags().DurationVar(&timeout, "timeout", 3*time.Second, "how long the answer may take")
	return cmd
}

func run(c config) error {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if c.untilEOF {
		go func() {
			// An error on stdin counts as its end.
			_, _ = io.Copy(io.Discard, os.Stdin)
			cancel()
		}()
	}
	if err := os.MkdirAll(c.data, 0o700); err != nil {
		return err
	}
	starting, cancelStart := context.WithTimeoutCause(ctx, c.startup, fmt.Errorf("not ready after %s", c.startup))
	defer cancelStart()
	if err := c.waitForKubeAPI(starting); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	s, err := start(&c)
	if err != nil {
		return err
	}
	if err := s.waitReady(starting); err != nil {
		s.stop(c.grace)
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	if _, err := fmt.Printf("{\"port\":%d,\"ready\":true}\n", s.port); err != nil {
		s.stop(c.grace)
		return err
	}
	select {
	case <-ctx.Done():
		s.stop(c.grace)
		return nil
	case <-s.ended:
		return errors.Join(errors.New("gardener-apiserver ended by itself"), s.err)
	}
}
