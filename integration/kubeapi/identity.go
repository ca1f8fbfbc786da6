package main

import (
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"slices"
	"time"
)

// identity is a key with a self-signed certificate.
type identity struct {
	name        string
	certFile    string
	keyFile     string
	hosts       []string // names and addresses that the certificate has to be valid for
	usage       x509.ExtKeyUsage
	certificate []byte // PEM, once it is loaded
}

// load keeps the existing certificate if it is valid for all hosts and for another day. Otherwise it signs a new
// one with the same key. A key that is missing is created.
func (i *identity) load() error {
	err := keep(i.keyFile, newKey)
	if err != nil {
		return err
	}
	if i.certificate, err = os.ReadFile(i.certFile); err == nil && i.covers() {
		return nil
	}
	if i.certificate, err = i.sign(); err != nil {
		return err
	}
	return writeFile(i.certFile, i.certificate)
}

func (i *identity) covers() bool {
	block, _ := pem.Decode(i.certificate)
	if block == nil {
		return false
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil || time.Now().After(cert.NotAfter.Add(-24*time.Hour)) {
		return false
	}
	return !slices.ContainsFunc(i.hosts, func(host string) bool { return cert.VerifyHostname(host) != nil })
}

func (i *identity) sign() ([]byte, error) {
	data, err := os.ReadFile(i.keyFile)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, fmt.Errorf("%s holds no PEM block", i.keyFile)
	}
	key, err := x509.ParseECPrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(now.UnixNano()),
		Subject:               pkix.Name{CommonName: i.name},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.AddDate(1, 0, 0),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{i.usage},
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	for _, host := range i.hosts {
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
