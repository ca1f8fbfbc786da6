// Command serve runs integration/lightapi as a program, for container tests that must not wait for a build of
// kube-apiserver. Its flags are those of integration/kubeapi that apply.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/hap-worker/hap-worker/integration/lightapi"
)

func main() {
	var o lightapi.Options
	flag.StringVar(&o.Bind, "bind", "127.0.0.1", "address to listen on")
	flag.StringVar(&o.Name, "name", "", "host name of the API in the kubeconfig (default: where it listens)")
	flag.IntVar(&o.Port, "port", 0, "port to listen on; 0 takes a free one")
	flag.StringVar(&o.Kubeconfig, "kubeconfig", "", "kubeconfig file to write (required)")
	flag.Parse()
	if err := serve(o); err != nil {
		fmt.Fprintln(os.Stderr, "serve:", err)
		os.Exit(1)
	}
}

// serve serves until SIGINT or SIGTERM.
func serve(o lightapi.Options) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	s, err := lightapi.New(o)
	if err != nil {
		return err
	}
	if err := s.Start(); err != nil {
		return err
	}
	<-ctx.Done()
	return s.Stop()
}
