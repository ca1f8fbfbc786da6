package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// credentials are the files that the API server and its clients need. They are
// made once per data directory, so a kubeconfig outlives a restart.
type credentials struct {
	token         string
	tokenFile     string
	accountKey    string // signs service account tokens
	certFile      string // self-signed: it is its own authority
	keyFile       string
	certificate   []byte // PEM
	certificateOf []string
}

func (c *config) credentials() (*credentials, error) {
	in := func(name string) string { return filepath.Join(c.data, name) }
	k := &credentials{
		tokenFile:     in("tokens.csv"),
		accountKey:    in("service-account.key"),
		certFile:      in("apiserver.crt"),
		keyFile:       in("apiserver.key"),
		certificateOf: c.hosts(),
	}
	if err := errors.Join(k.loadToken(), keep(k.accountKey, newKey), keep(k.keyFile, newKey), k.loadCertificate()); err != nil {
		return nil, fmt.Errorf("credentials: %w", err)
	}
	return k, nil
}

// hosts are the names that the certificate is valid for.
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

// loadCertificate keeps the certificate that is there if it is still valid for
// all the hosts, and signs a new one with the same key otherwise.
func (k *credentials) loadCertificate() error {
	var err error
	if k.certificate, err = os.ReadFile(k.certFile); err == nil && k.covers(k.certificate) {
		return nil
	}
	if k.certificate, err = k.signCertificate(); err != nil {
		return err
	}
	return writeFile(k.certFile, k.certificate)
}

func (k *credentials) covers(certificate []byte) bool {
	block, _ := pem.Decode(certificate)
	if block == nil {
		return false
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil || time.Now().After(cert.NotAfter.Add(-24*time.Hour)) {
		return false
	}
	return !slices.ContainsFunc(k.certificateOf, func(host string) bool { return cert.VerifyHostname(host) != nil })
}

func (k *credentials) signCertificate() ([]byte, error) {
	data, err := os.ReadFile(k.keyFile)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, fmt.Errorf("%s holds no PEM block", k.keyFile)
	}
	key, err := x509.ParseECPrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(now.UnixNano()),
		Subject:               pkix.Name{CommonName: "kubeapi"},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.AddDate(1, 0, 0),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	for _, host := range k.certificateOf {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

// newKey is an ECDSA key in PEM.
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

// kubeconfigFor is a kubeconfig with the token and the certificate inside it.
func (k *credentials) kubeconfigFor(server string) ([]byte, error) {
	const name = "kubeapi"
	return clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{name: {Server: server, CertificateAuthorityData: k.certificate}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {Token: k.token}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	})
}

// keep makes the file with what content gives, unless it is there.
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

// writeFile replaces a file as a whole: a reader never sees half of it.
func writeFile(file string, data []byte) error {
	part := file + ".part"
	if err := os.WriteFile(part, data, 0o600); err != nil {
		return err
	}
	return os.Rename(part, file)
}
