package connection

import (
	"crypto/tls"
	"crypto/x509"
	"net"
)

// verifyAs has a connection accept a certificate for any of the names, of which the first is the dialled one. Sentinels
// and the nodes of a cluster tell further servers by names or addresses that no URL has: their certificates may be for
// these, or be shared and for the name in a URL.
func verifyAs(secure *tls.Config, names []string) {
	secure.ServerName = names[0]
	roots := secure.RootCAs
	secure.InsecureSkipVerify = true // VerifyConnection does what it leaves out
	secure.VerifyConnection = func(state tls.ConnectionState) error {
		leaf, between := state.PeerCertificates[0], x509.NewCertPool()
		for _, c := range state.PeerCertificates[1:] {
			between.AddCert(c)
		}
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between}); err != nil {
			return &tls.CertificateVerificationError{UnverifiedCertificates: state.PeerCertificates, Err: err}
		}
		for _, name := range names[1:] {
			if leaf.VerifyHostname(name) == nil {
				return nil
			}
		}
		return leaf.VerifyHostname(names[0])
	}
}

// hostOf returns the host of an address, which may have no port.
func hostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}
