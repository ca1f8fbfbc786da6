package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/rest"
	basecompatibility "k8s.io/component-base/compatibility"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

// frontProxyName is the name by which kube-apiserver authenticates to the API servers behind it.
const frontProxyName = "front-proxy"

// poll is the interval of readiness checks during a start.
const poll = 25 * time.Millisecond

var errGaveUp = errors.New("kube-apiserver gave up")

// api is the kube-apiserver that runs in this process. There can be only one:
// its logging and feature gates are globals.
type api struct {
	creds  *credentials
	cancel context.CancelFunc
	listen string     // host:port as this process reaches it
	server string     // host:port as clients reach it
	ended  chan error // receives what the server returns, or errGaveUp after a fatal log line
}

func startAPI(c *config, creds *credentials, etcdEndpoint string) (*api, error) {
	port := c.port
	if port == 0 {
		var err error
		if port, err = freePort(c.bind); err != nil {
			return nil, err
		}
	}
	a := &api{creds: creds, ended: make(chan error, 2)}
	a.listen = net.JoinHostPort(reachable(c.bind), strconv.Itoa(port))
	a.server = c.server
	if a.server == "" {
		a.server = a.listen
	}
	args := append([]string{
		"--etcd-servers=" + etcdEndpoint,
		"--bind-address=" + c.bind,
		"--secure-port=" + strconv.Itoa(port),
		"--tls-cert-file=" + creds.serving.certFile,
		"--tls-private-key-file=" + creds.serving.keyFile,
		"--token-auth-file=" + creds.tokenFile,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + creds.accountKey,
		"--service-account-signing-key-file=" + creds.accountKey,
		"--service-cluster-ip-range=10.0.0.0/24",
		// No controller creates service accounts, so none can be required.
		"--disable-admission-plugins=ServiceAccount",
		// Without it kube-apiserver looks for an address of the machine's network, which a build machine may lack.
		"--advertise-address=127.0.0.1",
		// A loopback address may not be an endpoint of the Service kubernetes.
		"--endpoint-reconciler-type=none",
		// An API server behind this one, such as Gardener's, authenticates it by this certificate, and trusts
		// its headers about the caller.
		"--proxy-client-cert-file=" + creds.frontProxy.certFile,
		"--proxy-client-key-file=" + creds.frontProxy.keyFile,
		"--requestheader-client-ca-file=" + creds.frontProxy.certFile,
		"--requestheader-allowed-names=" + frontProxyName,
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
	}, c.apiserver...)
	// The modes of a repeated flag would add up, and AlwaysAllow would win.
	if !slices.ContainsFunc(c.apiserver, func(flag string) bool { return strings.HasPrefix(flag, "--authorization-mode") }) {
		args = append(args, "--authorization-mode=AlwaysAllow")
	}
	// Not the context that a signal ends: the server runs until stop.
	ctx, cancel := context.WithCancel(context.Background())
	a.cancel = cancel
	complete, err := parseAPI(ctx, args)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("kube-apiserver: %w", err)
	}
	klog.OsExit = a.gaveUp
	go func() { a.ended <- app.Run(ctx, complete) }()
	return a, nil
}

// gaveUp replaces os.Exit in fatal log lines. An interrupted start can end in one, which must neither hide the
// cause nor leave etcd open.
func (a *api) gaveUp(int) {
	select {
	case a.ended <- errGaveUp:
	default: // the end was reported already
	}
	select {} // a fatal line never returns
}

// parseAPI parses kube-apiserver's flags as its own command does. That command would also take over this
// process's signals.
func parseAPI(ctx context.Context, args []string) (options.CompletedOptions, error) {
	var none options.CompletedOptions
	s := options.NewServerRunOptions()
	flags := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
	flags.Usage = func() {}
	for _, set := range s.Flags().FlagSets {
		flags.AddFlagSet(set)
	}
	if err := flags.Parse(args); err != nil {
		return none, err
	}
	registry := s.GenericServerRunOptions.ComponentGlobalsRegistry
	if err := registry.Set(); err != nil {
		return none, err
	}
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	if err := logsapi.ValidateAndApply(s.Logs, registry.FeatureGateFor(basecompatibility.DefaultKubeComponent)); err != nil {
		return none, err
	}
	complete, err := s.Complete(ctx)
	if err != nil {
		return none, err
	}
	return complete, utilerrors.NewAggregate(complete.Validate())
}

// waitReady returns nil when /readyz is ok, and an error if the server or ctx ends before that.
func (a *api) waitReady(ctx context.Context) error {
	client, err := readyClient(a.creds.serving.certificate)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for {
		last := ready(ctx, client, "https://"+a.listen, a.creds.token)
		if last == nil {
			return nil
		}
		select {
		case err := <-a.ended:
			a.ended <- err
			return fmt.Errorf("kube-apiserver did not start: %w", err)
		case <-ctx.Done():
			return fmt.Errorf("kube-apiserver did not start: %w: %w", context.Cause(ctx), last)
		case <-ticker.C:
		}
	}
}

// stop stops the server, and waits for it, but at most for grace: open watches can delay its end for a minute.
func (a *api) stop(grace time.Duration) {
	a.cancel()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-a.ended:
	case <-timer.C:
	}
}

// announce writes the kubeconfig and says on stdout that everything is ready.
func (c *config) announce(a *api, etcd string) error {
	server := "https://" + a.server
	kubeconfig, err := a.creds.kubeconfigFor(server)
	if err != nil {
		return err
	}
	if err := writeFile(c.kubeconfig, kubeconfig); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{
		"kubeconfig": c.kubeconfig, "server": server, "etcd": etcd, "ready": true,
	})
}

func readyClient(certificate []byte) (*http.Client, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(certificate) {
		return nil, errors.New("the serving certificate is not PEM")
	}
	return &http.Client{
		Timeout:   5 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}},
	}, nil
}

// ready requests /readyz once, and returns nil if the server is ready.
func ready(ctx context.Context, client *http.Client, server, token string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server+"/readyz", nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", resp.Status, body)
	}
	return nil
}

// reachable returns the address by which this machine reaches a server that is bound to bind.
func reachable(bind string) string {
	if ip := net.ParseIP(bind); ip != nil && ip.IsUnspecified() {
		return "127.0.0.1"
	}
	return bind
}

func freePort(bind string) (int, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(bind, "0"))
	if err != nil {
		return 0, err
	}
	port := l.Addr().(*net.TCPAddr).Port
	return port, l.Close()
}

// stderr writes to the file that os.Stderr is at that moment: prepare replaces it.
type stderr struct{}

func (stderr) Write(p []byte) (int, error) { return os.Stderr.Write(p) }
