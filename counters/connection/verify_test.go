package connection

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"testing"
	"time"
)

// issued returns a certificate for the names, and a pool that trusts it alone.
func issued(t *testing.T, names ...string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: names, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, trusted
}

// TestCertificateOfAServer: a server that sentinels or a cluster tell of is known by the name under which it is
// dialled, or by that of any URL, and by no other. Its certificate has to be trusted all the same.
func TestCertificateOfAServer(t *testing.T) {
	t.Parallel()
	shared, trusted := issued(t, "a.example")
	forged, _ := issued(t, "a.example")
	for name, c := range map[string]struct {
		urls   []string
		shown  tls.Certificate
		dialed string // "" for the listener's address, 127.0.0.1
		unsafe bool
	}{
		"by its name":                    {[]string{"rediss://b.example:6379"}, shared, "a.example", false},
		"by the name of the first URL":   {[]string{"rediss://a.example:6379"}, shared, "", false},
		"by the name of another URL":     {[]string{"rediss://b.example:6379", "rediss://a.example:6379"}, shared, "", false},
		"by none of the names":           {[]string{"rediss://b.example:6379"}, shared, "", true},
		"by its name, of another issuer": {[]string{"rediss://a.example:6379"}, forged, "a.example", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ours, theirs := net.Pipe()
			ended := make(chan error, 1)
			go func() {
				ended <- tls.Server(theirs, &tls.Config{Certificates: []tls.Certificate{c.shown}, MinVersion: tls.VersionTLS12}).HandshakeContext(t.Context())
			}()
			secure := &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}
			names := []string{"127.0.0.1"}
			if c.dialed != "" {
				names[0] = c.dialed
			}
			for _, url := range c.urls {
				names = append(names, hostOf(url[len("rediss://"):]))
			}
			verifyAs(secure, names)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err := tls.Client(ours, secure).HandshakeContext(ctx)
			_ = ours.Close()
			<-ended
			var hostname x509.HostnameError
			var unverified *tls.CertificateVerificationError
			if refused := errors.As(err, &hostname) || errors.As(err, &unverified); refused != c.unsafe || err != nil && !refused {
				t.Errorf("the handshake ends with %v", err)
			}
		})
	}
}
