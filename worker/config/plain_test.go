package config

import (
	"strings"
	"testing"
)

// TestPlainConnectionsAreNamed: which URLs cause a warning. A warning shows only the host.
func TestPlainConnectionsAreNamed(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name        string
		nats, redis URLs
		tls         TLS
		otlp        OTLP
		want        []string // the beginnings of the sentences
	}{
		{name: "defaults", nats: Default().NATS.URL, redis: Default().Redis.URL},
		{name: "loopback", nats: URLs{"nats://localhost:4222", "ws://127.8.8.8", "nats://[::1]:4222"}, redis: URLs{"redis://Foo.LOCALHOST.:6379"}},
		{name: "mapped loopback", nats: URLs{"nats://[::ffff:127.0.0.1]"}, redis: URLs{"redis://[::1]"}},
		{name: "unix socket", nats: URLs{"tls://nats"}, redis: URLs{"unix:///run/redis.sock"}},
		{name: "TLS", nats: URLs{"tls://nats:4222", "wss://nats"}, redis: URLs{"rediss://redis:6379"}},
		{
			name: "plain", nats: URLs{"nats://user:" + secret + "@nats:4222"}, redis: URLs{"redis://:" + secret + "@10.0.0.1:6379/0?password=" + secret},
			want: []string{"nats.url does not ask for TLS to nats:4222:", "redis.url does not ask for TLS to 10.0.0.1:6379:"},
		},
		{
			name: "one server of several", nats: URLs{"nats://127.0.0.1:4222", "tls://a:4222", "nats://b:4222", "nats://c:4222"}, redis: URLs{"rediss://a"},
			want: []string{"nats.url does not ask for TLS to b:4222:"},
		},
		{name: "names that only begin like this machine's", nats: URLs{"nats://localhost.example.org"}, redis: URLs{"redis://127.0.0.1.example.org"}, want: []string{
			"nats.url does not ask for TLS to localhost.example.org:", "redis.url does not ask for TLS to 127.0.0.1.example.org:",
		}},
		{name: "every address of this machine", nats: URLs{"nats://0.0.0.0:4222"}, redis: URLs{"rediss://a"}, want: []string{"nats.url does not ask for TLS to 0.0.0.0:4222:"}},
		{name: "files of TLS ask NATS for it", nats: URLs{"nats://nats:4222", "ws://nats"}, redis: URLs{"rediss://a"}, tls: TLS{CA: "ca.pem"}},
		{name: "plain WebSocket", nats: URLs{"ws://nats:80"}, redis: URLs{"rediss://a"}, want: []string{"nats.url does not ask for TLS to nats:80:"}},
		{
			name: "they do not ask Redis", nats: URLs{"tls://nats"}, redis: URLs{"redis://a"}, tls: TLS{CA: "ca.pem"},
			want: []string{"redis.url does not ask for TLS to a:"},
		},
		{name: "a collector with TLS", nats: URLs{"tls://a"}, redis: URLs{"rediss://a"}, otlp: OTLP{Endpoint: "https://otel"}},
		{name: "a collector as host and port", nats: URLs{"tls://a"}, redis: URLs{"rediss://a"}, otlp: OTLP{Endpoint: "otel:4318"}},
		{name: "a collector beside the worker", nats: URLs{"tls://a"}, redis: URLs{"rediss://a"}, otlp: OTLP{Endpoint: "localhost:4318", Insecure: true}},
		{
			name: "a plain collector", nats: URLs{"tls://a"}, redis: URLs{"rediss://a"}, otlp: OTLP{Endpoint: "http://" + secret + "@otel:4318/v1?x=" + secret},
			want: []string{"telemetry.otlp.endpoint does not ask for TLS to otel:4318:"},
		},
		{
			name: "a plain collector as host and port", nats: URLs{"tls://a"}, redis: URLs{"rediss://a"}, otlp: OTLP{Endpoint: "otel:4318", Insecure: true},
			want: []string{"telemetry.otlp.endpoint does not ask for TLS to otel:4318:"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := Default()
			c.Telemetry.OTLP = test.otlp
			c.NATS.URL, c.Redis.URL = test.nats, test.redis
			c.NATS.TLS, c.Redis.TLS = test.tls, test.tls
			got := c.PlainConnections()
			if len(got) != len(test.want) {
				t.Fatalf("warns %q, want %q", got, test.want)
			}
			for i, warning := range got {
				if !strings.HasPrefix(warning, test.want[i]) || strings.Contains(warning, secret) {
					t.Errorf("warns %q, want %q without a secret", warning, test.want[i])
				}
			}
		})
	}
}
