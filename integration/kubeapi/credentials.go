package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// credentials are the files for the API server and its clients. Keys and token are created once per data
// directory, so that they stay valid after a restart.
type credentials struct {
	token      string
	tokenFile  string
	accountKey string   // signs service account tokens
	serving    identity // for the API server's clients
	frontProxy identity // for the API servers behind it
}

func (c *config) credentials() (*credentials, error) {
	in := func(name string) string { return filepath.Join(c.data, name) }
	k := &credentials{
		tokenFile:  in("tokens.csv"),
		accountKey: in("service-account.key"),
		serving: identity{
			name: "kubeapi", certFile: in("apiserver.crt"), keyFile: in("apiserver.key"),
			hosts: c.hosts(), usage: x509.ExtKeyUsageServerAuth,
		},
		frontProxy: identity{
			name: frontProxyName, certFile: in("front-proxy.crt"), keyFile: in("front-proxy.key"),
			usage: x509.ExtKeyUsageClientAuth,
		},
	}
	if err := errors.Join(k.loadToken(), keep(k.accountKey, newKey), k.serving.load(), k.frontProxy.load()); err != nil {
		return nil, fmt.Errorf("credentials: %w", err)
	}
	return k, nil
}

// hosts returns the host names and addresses of the serving certificate.
func (c *config) hosts() []string {
	hosts := append([]string{"localhost", "127.0.0.1", "::1", "kubernetes.default.svc"}, c.names...)
	if ip := net.ParseIP(c.bind); ip != nil && !ip.IsUnspecified() {
		hosts = append(hosts, c.bind)
	}
	if host, _, err := net.SplitHostPort(c.server); err == nil {
		hosts = append(hosts, host)
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

func (k *credentials) loadToken() error {
	err := keep(k.tokenFile, func() ([]byte, error) {
		return fmt.Appendf(nil, "%s,admin,admin,\"system:masters\"\n", rand.Text()), nil
	})
	if err != nil {
		return err
	}
	line, err := os.ReadFile(k.tokenFile)
	if err != nil {
		return err
	}
	k.token, _, _ = strings.Cut(string(line), ",")
	return nil
}

// newKey returns a new ECDSA key in PEM.
func newKey() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

// kubeconfigFor returns a kubeconfig with the token and the serving certificate.
func (k *credentials) kubeconfigFor(server string) ([]byte, error) {
	const name = "kubeapi"
	return clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{name: {Server: server, CertificateAuthorityData: k.serving.certificate}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {Token: k.token}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	})
}

// keep creates a file with the result of content, unless the file exists.
func keep(file string, content func() ([]byte, error)) error {
	_, err := os.Stat(file)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	data, err := content()
	if err != nil {
		return err
	}
	return writeFile(file, data)
}

// writeFile replaces a file atomically.
func writeFile(file string, data []byte) error {
	part := file + ".part"
	if err := os.WriteFile(part, data, 0o600); err != nil {
		return err
	}
	return os.Rename(part, file)
}
