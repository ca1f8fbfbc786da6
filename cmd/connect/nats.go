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
	"time"

	"github.com/nats-io/nats.go"

	"github.com/hap-worker/hap-worker/worker/config"
)

// natsTimeout bounds a dial, and the handshake after it.
const natsTimeout = 5 * time.Second

// natsPing is the time between two pings of the server: a connection on which
// nothing comes back, as after a partition or with a server that hangs, is given up
// after three of them. The library's own two minutes leave a worker deaf for six.
const natsPing = 5 * time.Second

// NATS connects and keeps trying, without end where forever, else until ctx
// ends; once connected it comes back by itself after every loss. tell is given
// what an operator may want to know, and may be nil.
func NATS(ctx context.Context, c config.NATS, name string, tell func(string)) (*nats.Conn, error) {
	if tell == nil {
		tell = func(string) {}
	}
	options, err := natsOptions(c, name, tell)
	if err != nil {
		return nil, err
	}
	connected, failed := make(chan struct{}, 1), make(chan error, 1)
	dials := &dialer{Dialer: net.Dialer{Timeout: natsTimeout}}
	options = append(options, nats.SetCustomDialer(dials), nats.ConnectHandler(func(*nats.Conn) { connected <- struct{}{} }),
		// Told of the first attempt only: the library keeps quiet about the others.
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) {
			select {
			case failed <- err:
			default:
			}
		}))
	nc, err := nats.Connect(strings.Join(c.URL, ","), options...)
	if err != nil {
		return nil, fmt.Errorf("connect to NATS at %s: %w", Shown(c.URL), err)
	}
	if nc.IsConnected() {
		return nc, nil
	}
	var refused error // by a server that was reached
	for {
		select {
		case <-connected:
			return nc, nil
		case refused = <-failed:
			tell(fmt.Sprintf("NATS at %s cannot be reached, trying again: %v", Shown(c.URL), dials.why(refused)))
		case <-ctx.Done():
			nc.Close()
			err := context.Cause(ctx)
			if why := dials.why(refused); why != nil {
				err = fmt.Errorf("%w; %w", why, err)
			}
			return nil, fmt.Errorf("connect to NATS at %s: %w", Shown(c.URL), err)
		}
	}
}

// dialer remembers why the last connection was not made: the library says only
// that there is no server.
type dialer struct {
	net.Dialer
	mu   sync.Mutex
	last error
}

// Dial is net.Dialer's, with gathered writes.
func (d *dialer) Dial(network, address string) (net.Conn, error) {
	conn, err := d.Dialer.Dial(network, address)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.last = err; err != nil {
		return nil, err
	}
	return gatherWrites(conn), nil
}

// why is the error of the last dial, or otherwise where that succeeded.
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
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				tell("connection to NATS lost: " + err.Error())
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) { tell("connected to NATS again, " + nc.ConnectedServerName()) }),
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
	if c.TLS != (config.TLS{}) {
		secure, err := tlsConfig(c.TLS, "nats.tls")
		if err != nil {
			return nil, err
		}
		options = append(options, nats.Secure(secure))
	}
	return options, nil
}

// tlsConfig reads the files that c names; key begins the path of the keys at fault.
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
