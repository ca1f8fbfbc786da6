package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/gardener/gardener/cmd/gardener-apiserver/app"
	"github.com/gardener/gardener/pkg/apiserver/features"
	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"
)

// poll is the interval of readiness checks during a start.
const poll = 25 * time.Millisecond

// server is the gardener-apiserver that runs in this process. There can be only
// one: its logging and feature gates are globals.
type server struct {
	cancel context.CancelFunc
	port   int
	listen string // host:port as this process reaches it
	ended  chan struct{}
	err    error // why it ended; valid after ended is closed
}

func start(c *config) (*server, error) {
	s := &server{port: c.port, ended: make(chan struct{})}
	if s.port == 0 {
		var err error
		if s.port, err = freePort(c.bind); err != nil {
			return nil, err
		}
	}
	s.listen = net.JoinHostPort(reachable(c.bind), strconv.Itoa(s.port))
	cert, key, err := c.certificate()
	if err != nil {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	features.RegisterFeatureGates()
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	cmd := app.NewCommand()
	cmd.SilenceErrors = true
	cmd.SetArgs(append([]string{
		"--bind-address=" + c.bind,
		"--secure-port=" + strconv.Itoa(s.port),
		"--tls-cert-file=" + cert,
		"--tls-private-key-file=" + key,
		"--etcd-servers=" + c.etcd,
		// kube-apiserver authenticates and authorizes callers.
		"--kubeconfig=" + c.kubeconfig,
		"--authentication-kubeconfig=" + c.kubeconfig,
		"--authorization-kubeconfig=" + c.kubeconfig,
		"--cluster-identity=hap-stack",
		"--log-level=error",
		"--log-format=text",
	}, c.apiserver...))
	// Not the context that a signal ends: the server runs until stop.
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	go func() {
		defer close(s.ended)
		s.err = cmd.ExecuteContext(ctx)
	}()
	return s, nil
}

// certificate creates a self-signed certificate with its key, and returns their files. No
// client verifies it: the APIServices say insecureSkipTLSVerify.
func (c *config) certificate() (cert, key string, err error) {
	cert, key = filepath.Join(c.data, "gardener-apiserver.crt"), filepath.Join(c.data, "gardener-apiserver.key")
	certPEM, keyPEM, err := certutil.GenerateSelfSignedCertKey("localhost", nil, nil)
	if err != nil {
		return "", "", err
	}
	if err := os.WriteFile(cert, certPEM, 0o600); err != nil {
		return "", "", err
	}
	return cert, key, os.WriteFile(key, keyPEM, 0o600)
}

// waitReady returns nil when /readyz is ok, and an error if the server or ctx ends before that.
func (s *server) waitReady(ctx context.Context) error {
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for {
		last := ready(ctx, s.listen)
		if last == nil {
			return nil
		}
		select {
		case <-s.ended:
			return errors.Join(errors.New("gardener-apiserver did not start"), s.err)
		case <-ctx.Done():
			return fmt.Errorf("gardener-apiserver did not start: %w: %w", context.Cause(ctx), last)
		case <-ticker.C:
		}
	}
}

// stop stops the server, and waits for it, but at most for grace: open watches can delay its end for a minute.
func (s *server) stop(grace time.Duration) {
	s.cancel()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-s.ended:
	case <-timer.C:
	}
}

// ready requests /readyz once, and returns nil if the server is ready.
func ready(ctx context.Context, address string) error {
	client := &http.Client{
		Timeout: 5 * time.Second,
		Transport: &http.Transport{
			DisableKeepAlives: true,
			// The certificate is self-signed, and the request has no secrets.
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}, //nolint:gosec // see above
		},
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+"/readyz", nil)
	if err != nil {
		return err
	}
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
