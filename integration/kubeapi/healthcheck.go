package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
)

// healthcheckCommand returns the command that checks whether a running kubeapi is ready: the health check of a
// container whose image has only this program.
func healthcheckCommand() *cobra.Command {
	var kubeconfig string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "healthcheck --kubeconfig FILE",
		Short: "Exit 0 if the API that the kubeconfig names is ready",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
			if err != nil {
				return err
			}
			client, err := readyClient(cfg.CAData)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return ready(ctx, client, cfg.Host, cfg.BearerToken)
		},
	}
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig that kubeapi wrote (required)")
	cmd.Flags().DurationVar(&timeout, "timeout", 3*time.Second, "how long the answer may take")
	if err := cmd.MarkFlagRequired("kubeconfig"); err != nil {
		panic(err)
	}
	return cmd
}
