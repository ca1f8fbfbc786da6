// Package connect opens the connections that a configuration names, the same
// way for the daemon and for hapctl.
package connect

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/hap-worker/hap-worker/worker/config"
)

// natsTimeout bounds a dial, and the handshake after it.
const natsTimeout = 5 * time.Second

// natsPing is the interval between pings of the server. If two pings are unanswered when the third is due,
// as in a partition or with a server that hangs, the connection is given up. The library's default of two
// minutes would leave a worker deaf for six.
const natsPing = 5 * time.Second

// NATS connects to NATS as the client name, and tries until ctx ends. It returns an error if ctx ends first, or if
// the configuration cannot be used. The connection then reconnects by itself after every loss. tell receives
// messages for operators, and may be nil.
func NATS(ctx context.Context, c config.NATS, name string, tell func(string)) (*nats.Conn, error) {
	if tell == nil {
		tell = func(string) {}
	}
	options, err := natsOptions(c, name, tell)
	if err != nil {
		return nil, err
	}
	connected := make(chan struct{}, 1)
	dials := &dialer{Dialer: net.Dialer{Timeout: natsTimeout}, seed: c.NKey}
	refusals := &refusals{tell: func(why error) {
		tell(fmt.Sprintf("NATS at %s cannot be reached, trying again: %v", Shown(c.URL), why))
	}}
	options = append(options, nats.SetCustomDialer(dials),
		nats.ClosedHandler(func(*nats.Conn) { dials.end() }),
		nats.ConnectHandler(func(*nats.Conn) { refusals.end(); connected <- struct{}{} }),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			refusals.end()
			tell("connected to NATS again, " + nc.ConnectedServerName())
		}),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { refusals.add(dials.why(err)) }))
	nc, err := nats.Connect(strings.Join(c.URL, ","), options...)
	if err != nil {
		return nil, fmt.Errorf("connect to NATS at %s: %w", Shown(c.URL), err)
	}
	dials.of.Store(nc)
	if nc.IsConnected() {
		return nc, nil
	}
	select {
	case <-connected:
		return nc, nil
	case <-ctx.Done():
		nc.Close()
		err := context.Cause(ctx)
		if why := dials.why(refusals.why()); why != nil {
			err = fmt.Errorf("%w; %w", why, err)
		}
		return nil, fmt.Errorf("connect to NATS at %s: %w", Shown(c.URL), err)
	}
}

// refusals reports why there is no connection. It reports a reason again only after another reason or after a
// connection.
type refusals struct {
	tell func(error)

	mu   sync.Mutex
	last error
}

func (r *refusals) add(err error) {
	if err == nil {
		return
	}
	r.mu.Lock()
	known := r.last != nil && r.last.Error() == err.Error()
	r.last = err
	r.mu.Unlock()
	if !known {
		r.tell(err)
	}
}

func (r *refusals) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = nil
}

// why returns the last refusal, nil for none.
func (r *refusals) why() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// dialer remembers the error of the last dial: the library reports only that there is no server.
type dialer struct {
	net.Dialer
	seed string                    // the file of the nkey, "" for none
	of   atomic.Pointer[nats.Conn] // nil until nats.Connect has returned

	mu   sync.Mutex
	last error
	conn net.Conn // of the last dial, nil for none
}

// Dial dials like net.Dialer and gathers the connection's writes. Once nats.Connect has returned, it first derives the
// public key from the seed file again: the library reads that file at every connection, but derives the public key only
// once. Dial runs under the lock of the nats.Conn, before the key is sent.
func (d *dialer) Dial(network, address string) (net.Conn, error) {
	if nc := d.of.Load(); nc != nil && d.seed != "" {
		if key, err := nats.NkeyOptionFromSeed(d.seed); err == nil { // after an error the key stays: the file may be half written
			_ = key(&nc.Opts)
		}
	}
	d.end()
	conn, err := d.Dialer.Dial(network, address)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.last = err; err != nil {
		return nil, err
	}
	d.conn = gatherWrites(conn)
	return d.conn, nil
}

// end closes the connection of the last dial: the library does not close a connection that the server
// refused.
func (d *dialer) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.conn != nil {
		_ = d.conn.Close()
		d.conn = nil
	}
}

// why returns the error of the last dial. If that dial succeeded, it returns its argument.
func (d *dialer) why(otherwise error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.last != nil {
		return d.last
	}
	return otherwise
}

func natsOptions(c config.NATS, name string, tell func(string)) ([]nats.Option, error) {
	options := []nats.Option{
		nats.Name(name), nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true),
		nats.ReconnectWait(250 * time.Millisecond), nats.ReconnectJitter(250*time.Millisecond, time.Second),
		nats.PingInterval(natsPing), nats.MaxPingsOutstanding(2),
		nats.Timeout(natsTimeout), nats.DrainTimeout(10 * time.Second),
		// Without this option, the second refusal in a row would end the connection forever: a worker would stay
		// deaf if a credential was changed at the server first.
		nats.IgnoreAuthErrorAbort(),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				tell("connection to NATS lost: " + err.Error())
			}
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { tell("NATS: " + err.Error()) }),
	}
	if c.Credentials != "" {
		options = append(options, nats.UserCredentials(c.Credentials))
	}
	if c.NKey != "" {
		key, err := nats.NkeyOptionFromSeed(c.NKey)
		if err != nil {
			return nil, fmt.Errorf("nats.nkey: %w", err)
		}
		options = append(options, key)
	}
	if c.TLS == (config.TLS{}) {
		return options, nil
	}
	secure, err := tlsConfig(c.TLS, "nats.tls")
	if err != nil {
		return nil, err
	}
	options = append(options, nats.Secure(&tls.Config{MinVersion: secure.MinVersion}))
	if c.TLS.CA != "" { // read at every connection, like certificate and key
		options = append(options, nats.RootCAs(c.TLS.CA))
	}
	if c.TLS.Cert != "" {
		options = append(options, nats.ClientCert(c.TLS.Cert, c.TLS.Key))
	}
	return options, nil
}

// tlsConfig reads the files that c names. Errors begin with key, the section of the configuration.
func tlsConfig(c config.TLS, key string) (*tls.Config, error) {
	secure := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CA != "" {
		pem, err := os.ReadFile(c.CA)
		if err != nil {
			return nil, fmt.Errorf("%s.ca: %w", key, err)
		}
		secure.RootCAs = x509.NewCertPool()
		if !secure.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s.ca: %s has no certificate in PEM form", key, c.CA)
		}
	}
	if c.Cert != "" {
		pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
		if err != nil {
			return nil, fmt.Errorf("%s.cert: %w", key, err)
		}
		secure.Certificates = []tls.Certificate{pair}
	}
	return secure, nil
}
