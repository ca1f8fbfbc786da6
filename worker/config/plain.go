package config

import (
	"fmt"
	"net/netip"
	"net/url"
	"strings"
)

// PlainConnections returns a sentence for each setting that leads to a server on another
// machine without asking for TLS; none where all do. Each names its setting and the host.
// They are apart from Warnings, because hapctl and the command config say nothing of them.
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

// plainHost is plainHost of the endpoint, which is a URL or host:port.
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

// plainHost returns the first host of urls that is not this machine and whose scheme is
// plain, else "". Only the host is returned: the rest of a URL can hold secrets.
func plainHost(urls URLs, plain func(scheme string) bool) string {
	for _, text := range urls {
		u, err := url.Parse(text)
		if err == nil && plain(u.Scheme) && !loopback(u.Hostname()) {
			return u.Host
		}
	}
	return ""
}

// loopback reports whether host is this machine by its name or address alone: no name is looked up.
func loopback(host string) bool {
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	if name == "" || name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.Unmap().IsLoopback()
}
