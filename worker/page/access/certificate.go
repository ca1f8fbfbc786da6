package access

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"os"
	"sync"
)

// certificate is the key pair in two files, as they were when they were last read without an error.
type certificate struct {
	cert, key string // files
	warn      func(string)

	mu              sync.Mutex
	certPEM, keyPEM []byte
	pair            *tls.Certificate
	failed          string // the last error that warn was called with, "" after a successful read
}

// TLSConfig serves the certificate in two files, which are reread at each handshake. If they are unreadable
// or do not match, as between two writes, the previous pair is served, and warn is called unless the previous
// handshake had the same error. TLSConfig returns an error if the files are invalid at the start.
func TLSConfig(cert, key string, warn func(string)) (*tls.Config, error) {
	c := &certificate{cert: cert, key: key, warn: warn}
	if err := c.read(); err != nil {
		return nil, fmt.Errorf("telemetry.page.tls: %w", err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.get(), nil }}, nil
}

func (c *certificate) get() *tls.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.read()
	switch {
	case err == nil:
		c.failed = ""
	case err.Error() != c.failed:
		c.failed = err.Error()
		c.warn("telemetry.page.tls: the certificate of before is served: " + c.failed)
	}
	return c.pair
}

func (c *certificate) read() error {
	cert, err := os.ReadFile(c.cert)
	if err != nil {
		return err
	}
	key, err := os.ReadFile(c.key)
	if err != nil {
		return err
	}
	if c.pair != nil && bytes.Equal(cert, c.certPEM) && bytes.Equal(key, c.keyPEM) {
		return nil
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return fmt.Errorf("%s and %s: %w", c.cert, c.key, err)
	}
	c.certPEM, c.keyPEM, c.pair = cert, key, &pair
	return nil
}
