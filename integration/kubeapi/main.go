// Command kubeapi is a Kubernetes API in one static binary: kube-apiserver with an embedded etcd. docker-compose
// starts it; the development stack and the container tests can start it instead of integration/lightapi. There
// are no nodes, no controller manager and, by default, no authorization. The kubeconfig has all rights.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// config has the values of the flags.
type config struct {
	data       string   // directory of etcd, keys, certificates and log
	bind       string   // address that the API listens on
	port       int      // 0: a free one
	names      []string // further names and addresses in the serving certificate
	kubeconfig string   // file that is written; "" is <data>/kubeconfig
	server     string   // host:port in the kubeconfig; "" is where this machine reaches the API
	etcdListen string   // host:port of etcd, which has no authentication
	untilEOF   bool
	fsync      bool
	verbose    bool
	grace      time.Duration
	startup    time.Duration
	apiserver  []string // passed on to kube-apiserver
}

func main() {
	// Unless --verbose is set, prepare redirects os.Stderr into the log. Messages to the user go to the
	// original one.
	talk := os.Stderr
	if err := command().ExecuteContext(context.Background()); err != nil {
		fmt.Fprintln(talk, "kubeapi:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	var c config
	cmd := &cobra.Command{
		Use:   "kubeapi --data DIR [flags] [-- KUBE-APISERVER-FLAGS]",
		Short: "A Kubernetes API in one process: kube-apiserver with an embedded etcd",
		Long: `A Kubernetes API in one process: kube-apiserver with an embedded etcd.

Once /readyz is ok, one JSON line on stdout says where it is and which kubeconfig
was written. It runs until SIGINT or SIGTERM. A data directory that was used before
is taken up again: objects, keys and kubeconfig token stay. Flags after -- go to
kube-apiserver and win over those set here.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(_ *cobra.Command, args []string) error {
			c.apiserver = args
			return run(c)
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.data, "data", "", "directory for etcd, keys and log; kept at the end (required)")
	f.StringVar(&c.bind, "bind", "127.0.0.1", "address to listen on")
	f.IntVar(&c.port, "port", 0, "port to listen on; 0 takes a free one")
	f.StringSliceVar(&c.names, "name", nil, "further host name or address for the serving certificate")
	f.StringVar(&c.kubeconfig, "kubeconfig", "", "kubeconfig file to write (default DATA/kubeconfig)")
	f.StringVar(&c.server, "server", "", "host:port to write into the kubeconfig (default: where it listens)")
	f.StringVar(&c.etcdListen, "etcd-listen", "127.0.0.1:0", "host:port for etcd's clients, for an API server behind this one; nobody is asked for credentials")
	f.BoolVar(&c.untilEOF, "until-eof", false, "stop at the end of stdin, so that it dies with who started it")
	f.BoolVar(&c.fsync, "fsync", false, "let etcd wait for the disk; without it a crash of the machine may lose data")
	f.BoolVar(&c.verbose, "verbose", false, "log to stderr instead of DATA/kubeapi.log")
	f.DurationVar(&c.grace, "grace", 3*time.Second, "how long a stop waits for open requests and watches")
	f.DurationVar(&c.startup, "startup", time.Minute, "how long a start may take")
	if err := cmd.MarkFlagRequired("data"); err != nil {
		panic(err)
	}
	cmd.AddCommand(healthcheckCommand())
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
	release, err := c.prepare()
	if err != nil {
		return err
	}
	defer release()
	err = c.serve(ctx)
	if err != nil && !c.verbose {
		return fmt.Errorf("%w; %s ends:\n%s", err, c.logFile(), c.logEnd())
	}
	return err
}

// prepare creates the data directory, locks it for this process and, unless verbose, redirects os.Stderr into the log.
func (c *config) prepare() (release func(), err error) {
	if c.data, err = filepath.Abs(c.data); err != nil {
		return nil, err
	}
	if c.kubeconfig == "" {
		c.kubeconfig = filepath.Join(c.data, "kubeconfig")
	}
	if err = os.MkdirAll(c.data, 0o700); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(c.data, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("%s is in use by another kubeapi", c.data), lock.Close())
	}
	if !c.verbose {
		// klog reads os.Stderr at each write. Panics of the runtime still go to the original one.
		log, err := os.OpenFile(c.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, errors.Join(err, lock.Close())
		}
		os.Stderr = log
	}
	return func() { _ = lock.Close() }, nil
}

func (c *config) logFile() string { return filepath.Join(c.data, "kubeapi.log") }

// logEnd returns the last ten lines of the log, or the error of reading it: a temporary directory may be gone.
func (c *config) logEnd() string {
	const lines = 10
	data, err := os.ReadFile(c.logFile())
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(data)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// serve runs etcd and the API server until ctx ends, or one of them fails. The API server stops before its etcd.
func (c *config) serve(ctx context.Context) error {
	etcd, err := startEtcd(ctx, c)
	if err != nil {
		return err
	}
	defer etcd.stop()
	creds, err := c.credentials()
	if err != nil {
		return err
	}
	api, err := startAPI(c, creds, etcd.endpoint)
	if err != nil {
		return err
	}
	starting, cancel := context.WithTimeoutCause(ctx, c.startup,
		fmt.Errorf("not ready after %s", c.startup))
	defer cancel()
	if err := api.waitReady(starting); err != nil {
		api.stop(c.grace)
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	if err := c.announce(api, etcd.endpoint); err != nil {
		api.stop(c.grace)
		return err
	}
	select {
	case <-ctx.Done():
		api.stop(c.grace)
		return nil
	case err := <-api.ended:
		return fmt.Errorf("kube-apiserver ended by itself: %w", err)
	case err := <-etcd.server.Err():
		api.stop(c.grace)
		return fmt.Errorf("etcd ended by itself: %w", err)
	}
}
