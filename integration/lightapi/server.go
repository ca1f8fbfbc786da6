package lightapi

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Options configure an API.
type Options struct {
	// Kubeconfig is the file that Start writes, with all rights. Required.
	Kubeconfig string
	// Bind is the address that the API listens on. Defaults to the loopback address.
	Bind string
	// Name is the host name for clients, in the kubeconfig and the certificate. Defaults to Bind.
	Name string
	// Port is the port to listen on. Defaults to a free one, which restarts keep.
	Port int
	// History bounds the changes that are kept for each kind: the last ones, at least half as many. A watch or a
	// page that needs an older version gets 410. Defaults to 16384.
	History int
	// Bookmarks is the interval of bookmarks. Defaults to a minute.
	Bookmarks time.Duration
}

// stopGrace is how long open requests may take when the API stops.
const stopGrace = 5 * time.Second

// Server is the API. Its objects live as long as the process.
type Server struct {
	options Options
	store   *store
	token   string
	serving tls.Certificate
	ca      []byte // PEM

	mu     sync.Mutex
	server *http.Server // nil while it is stopped
	end    context.CancelFunc
	served sync.WaitGroup
}

// New returns an API without objects other than the initial namespaces. Start serves it.
func New(o Options) (*Server, error) {
	if o.Kubeconfig == "" {
		return nil, errors.New("lightapi: Kubeconfig is missing")
	}
	if o.History < 0 || o.Bookmarks < 0 || o.Port < 0 {
		return nil, errors.New("lightapi: an option is negative")
	}
	if o.History == 0 {
		o.History = 16384
	}
	if o.Bookmarks == 0 {
		o.Bookmarks = time.Minute
	}
	o.Bind = cmp.Or(o.Bind, "127.0.0.1")
	o.Name = cmp.Or(o.Name, o.Bind)
	s := &Server{options: o, store: newStore(o.History), token: rand.Text()}
	if err := errors.Join(s.sign(), s.found()); err != nil {
		return nil, fmt.Errorf("lightapi: %w", err)
	}
	return s, nil
}

// found creates the namespaces that each cluster has.
func (s *Server) found() error {
	c, k, _ := s.store.find(schema.GroupVersionResource{Version: "v1", Resource: namespaces})
	for _, name := range []string{"default", "kube-node-lease", "kube-public", "kube-system"} {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": k.name}}
		o.SetName(name)
		if _, err := s.insert(c, k, "", o, false); err != nil {
			return err
		}
	}
	return nil
}

// sign creates the self-signed certificate.
func (s *Server) sign() error {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "lightapi"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(1, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true, IsCA: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost", s.options.Name},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		return err
	}
	s.ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	s.serving = tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}
	return nil
}

// Start serves the API, at its old address after a stop. It does nothing if the API runs already.
func (s *Server) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server != nil {
		return nil
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(s.options.Bind, fmt.Sprint(s.options.Port)))
	if err != nil {
		return fmt.Errorf("lightapi: %w", err)
	}
	s.options.Port = listener.Addr().(*net.TCPAddr).Port
	if err := s.writeKubeconfig(net.JoinHostPort(s.options.Name, fmt.Sprint(s.options.Port))); err != nil {
		return errors.Join(fmt.Errorf("lightapi: %w", err), listener.Close())
	}
	var ctx context.Context
	ctx, s.end = context.WithCancel(context.Background())
	server := &http.Server{
		Handler: s, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 0, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 64 << 10, ErrorLog: log.New(io.Discard, "", 0),
		BaseContext: func(net.Listener) context.Context { return ctx },
		TLSConfig:   &tls.Config{Certificates: []tls.Certificate{s.serving}, MinVersion: tls.VersionTLS12},
	}
	s.server = server
	s.served.Go(func() { _ = server.ServeTLS(listener, "", "") }) // it ends with Stop or Kill
	return nil
}

func (s *Server) writeKubeconfig(address string) error {
	const name = "light"
	content, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{name: {Server: "https://" + address, CertificateAuthorityData: s.ca}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {Token: s.token}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(s.options.Kubeconfig), 0o700); err != nil {
		return err
	}
	// Rename, so that a reader never sees half of the file.
	part := s.options.Kubeconfig + ".part"
	if err := os.WriteFile(part, content, 0o600); err != nil {
		return err
	}
	return os.Rename(part, s.options.Kubeconfig)
}

// Stop ends watches, waits for requests, and closes connections. It keeps the objects. It may be called
// twice, and before Start.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server == nil {
		return nil
	}
	s.end()
	ctx, cancel := context.WithTimeout(context.Background(), stopGrace)
	defer cancel()
	err := s.server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(fmt.Errorf("lightapi: %w", err), s.server.Close())
	}
	s.server = nil
	s.served.Wait()
	return err
}

// Kill closes all connections at once, like a crash. It keeps the objects.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server == nil {
		return
	}
	_ = s.server.Close()
	s.end()
	s.server = nil
	s.served.Wait()
}
