package config

import (
	"fmt"
	"net/netip"
	"net/url"
	"strings"
)

// PlainConnections returns a sentence for each of nats.url, redis.url and telemetry.otlp.endpoint that connects to
// another machine without TLS. Each names the setting and the first such host. They are not part of Warnings, since
// hapctl and the command config do not show them.
func (c *Config) PlainConnections() []string {
	var found []string
	// A file under nats.tls asks for TLS whatever the scheme; redis.tls needs rediss.
	plainNATS := func(scheme string) bool { return c.NATS.TLS == (TLS{}) && (scheme == "nats" || scheme == "ws") }
	if host := plainHost(c.NATS.URL, plainNATS); host != "" {
		found = append(found, fmt.Sprintf("nats.url does not ask for TLS to %s: credentials and events can be read in transit; use tls:// or wss://", host))
	}
	if host := plainHost(c.Redis.URL, func(scheme string) bool { return scheme == "redis" }); host != "" {
		found = append(found, fmt.Sprintf("redis.url does not ask for TLS to %s: passwords and counts can be read in transit; use rediss://", host))
	}
	if host := c.Telemetry.OTLP.plainHost(); host != "" {
		found = append(found, fmt.Sprintf("telemetry.otlp.endpoint does not ask for TLS to %s: traces, and the headers sent with them, can be read in transit; use https://", host))
	}
	return found
}

// plainHost returns the host of the endpoint if it is on another machine and without TLS, otherwise "". The
// endpoint is a URL or host:port.
func (o OTLP) plainHost() string {
	endpoint := o.Endpoint
	if !strings.Contains(endpoint, "://") {
		scheme := "https"
		if o.Insecure {
			scheme = "http"
		}
		endpoint = scheme + "://" + endpoint
	}
	return plainHost(URLs{endpoint}, func(scheme string) bool { return scheme == "http" })
}

// plainHost returns the first host of urls that is not this machine and whose scheme is plain, otherwise "".
// It returns no more than the host, since a URL can contain secrets.
func plainHost(urls URLs, plain func(scheme string) bool) string {
	for _, text := range urls {
		u, err := url.Parse(text)
		if err == nil && plain(u.Scheme) && !loopback(u.Hostname()) {
			return u.Host
		}
	}
	return ""
}

// loopback reports whether host is empty, or a loopback name or address. It does not resolve names.
func loopback(host string) bool {
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	if name == "" || name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.Unmap().IsLoopback()
}
