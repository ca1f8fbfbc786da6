package access

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// selfSigned writes a certificate of a serial number, and its key.
func selfSigned(t *testing.T, serial int64, cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "page"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, errDER := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	secret, errKey := x509.MarshalECPrivateKey(private)
	if err := errors.Join(errDER, errKey); err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "EC PRIVATE KEY", Bytes: secret}} {
		if err := errors.Join(os.WriteFile(file+".new", pem.EncodeToMemory(block), 0o600), os.Rename(file+".new", file)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCertificateIsReadAgain changes the certificate while requests are made: no request fails, and later
// ones see the new certificate. An unreadable one changes nothing.
func TestCertificateIsReadAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	if _, err := TLSConfig(cert, key, nil); err == nil || !strings.Contains(err.Error(), "telemetry.page.tls") {
		t.Errorf("without files: %v", err)
	}
	selfSigned(t, 1, cert, key)
	var warned []string
	var mu sync.Mutex
	secure, err := TLSConfig(cert, key, func(text string) { mu.Lock(); defer mu.Unlock(); warned = append(warned, text) })
	if err != nil {
		t.Fatal(err)
	}
	p, _ := serve(t, Rules{Listen: "127.0.0.1:8080"})
	server := httptest.NewUnstartedServer(hosted{p, "localhost"})
	server.Listener = tls.NewListener(server.Listener, secure) // StartTLS has its own certificate
	server.Start()
	defer server.Close()
	ask := func() int64 {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
		defer client.CloseIdleConnections()
		r, err := client.Get(strings.Replace(server.URL, "http", "https", 1) + "/assets/page.css")
		if err != nil {
			t.Error(err)
			return 0
		}
		defer r.Body.Close()
		if r.StatusCode != http.StatusOK {
			t.Errorf("the page answers %s", r.Status)
		}
		return r.TLS.PeerCertificates[0].SerialNumber.Int64()
	}
	var stop atomic.Bool
	var load sync.WaitGroup
	for range 4 {
		load.Go(func() {
			for !stop.Load() {
				ask()
			}
		})
	}
	for serial := int64(2); serial < 10; serial++ {
		selfSigned(t, serial, cert, key)
		if got := ask(); got != serial {
			t.Errorf("certificate %d is served, want %d", got, serial)
		}
	}
	stop.Store(true)
	load.Wait()
	mu.Lock()
	warned = nil // of a key that did not fit between two writes
	mu.Unlock()
	if err := os.WriteFile(key, []byte("none"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := ask(); got != 9 {
		t.Errorf("with a key that is none, certificate %d is served", got)
	}
	ask()
	if len(warned) != 1 || !strings.Contains(warned[0], "the certificate of before is served") {
		t.Errorf("warned of %q", warned)
	}
}
