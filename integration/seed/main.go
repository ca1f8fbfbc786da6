// Command seed prepares a Kubernetes API for hap-worker: it creates the CRDs of deploy/crds, the namespace, and the
// bindings and Shoots of accounts, by default the demo accounts. With --gardener, Gardener's own API server serves the
// Gardener kinds instead of CRDs. docker-compose runs it once before the workers. It is idempotent: existing bindings
// stay as they are.
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/hap-worker/hap-worker/integration/stack"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command().ExecuteContext(ctx)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "seed:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	var kubeconfig, config, accounts, gardener string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:           "seed --kubeconfig FILE",
		Short:         "Apply CRDs, namespace and the bindings of accounts",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return seed(ctx, kubeconfig, config, accounts, gardener)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig of the API to fill (required)")
	fs.StringVar(&config, "config", "", "configuration of the worker: its gardener section names namespace, kind and labels")
	fs.StringVar(&accounts, "accounts", "", "YAML list of {name, hyperscalerType, labels, kind} instead of the demo accounts")
	fs.StringVar(&gardener, "gardener", "", "host:port where kube-apiserver finds gardener-apiserver, host being a DNS name; without, the Gardener kinds are CRDs")
	fs.DurationVar(&timeout, "timeout", time.Minute, "how long it may take")
	if err := cmd.MarkFlagRequired("kubeconfig"); err != nil {
		panic(err)
	}
	return cmd
}

func seed(ctx context.Context, kubeconfig, config, accounts, gardener string) error {
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	cfg.QPS = -1
	var settings []byte
	if config != "" {
		if settings, err = os.ReadFile(config); err != nil {
			return err
		}
	}
	target, err := stack.ReadTarget(settings)
	if err != nil {
		return err
	}
	if target.Gardener, err = aggregated(gardener); err != nil {
		return err
	}
	list := stack.DemoAccounts()
	if accounts != "" {
		data, err := os.ReadFile(accounts)
		if err != nil {
			return err
		}
		if list, err = stack.ReadAccounts(data); err != nil {
			return fmt.Errorf("%s: %w", accounts, err)
		}
	}
	if err := stack.Seed(ctx, cfg, target, list); err != nil {
		return err
	}
	fmt.Printf("seeded %s with %d accounts\n", target.Namespace, len(list))
	return nil
}

// aggregated parses the flag --gardener. It returns nil for CRDs.
func aggregated(address string) (*stack.Aggregated, error) {
	if address == "" {
		return nil, nil
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("--gardener: %w", err)
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("--gardener: port %q: %w", port, err)
	}
	return &stack.Aggregated{Host: host, Port: int(number)}, nil
}
