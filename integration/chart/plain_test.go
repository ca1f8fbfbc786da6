package chart_test

import (
	"strings"
	"testing"
)

// TestPlainConnections: a connection to another machine without TLS needs a decision in the values. The error
// names the host and what to do, and nothing else of the URL.
func TestPlainConnections(t *testing.T) {
	t.Parallel()
	const both = "{config: {nats: {url: 'tls://nats:4222'}, redis: {url: 'rediss://redis:6379'}}}"
	const ofNATS = "without TLS, where credentials and events can be read on the way. Decide: use tls:// or wss://, or set plainConnections.nats to true where that way is trusted"
	const ofRedis = "without TLS, where passwords and counts can be read on the way. Decide: use rediss://, or set plainConnections.redis to true where that way is trusted"
	const ofTraces = "without TLS, where traces, and the headers sent with them, can be read on the way. Decide: use https://, or set plainConnections.otlp to true where that way is trusted"
	for values, says := range map[string]string{
		"{config: {nats: {url: 'nats://nats:4222'}}}":                                               "config.nats.url leads to nats:4222 " + ofNATS,
		"{config: {nats: {url: 'NATS://nats'}}}":                                                    "config.nats.url leads to nats " + ofNATS,
		"{config: {nats: {url: 'tls://a,ws://u:geheim@b:80/x?y=geheim'}}}":                          "config.nats.url leads to b:80 " + ofNATS,
		"{config: {nats: {url: ['tls://a', 'nats://[2001:db8::1]:4222']}}}":                         "config.nats.url leads to [2001:db8::1]:4222 " + ofNATS,
		"{config: {nats: {url: 'nats://localhost.example'}}}":                                       "config.nats.url leads to localhost.example " + ofNATS,
		"{config: {redis: {url: 'redis://:geheim@redis:6379/0'}}}":                                  "config.redis.url leads to redis:6379 " + ofRedis,
		"{config: {redis: {url: 'redis://redis', tls: {ca: /ca}}}, plainConnections: {nats: true}}": "config.redis.url leads to redis " + ofRedis,
		"{config: {telemetry: {otlp: {endpoint: 'http://geheim@otel:4318/v1'}}}}":                   "config.telemetry.otlp.endpoint leads to otel:4318 " + ofTraces,
		"{config: {telemetry: {otlp: {endpoint: 'otel:4318', insecure: true}}}}":                    "config.telemetry.otlp.endpoint leads to otel:4318 " + ofTraces,
		"{env: [{name: HAP_TELEMETRY_OTLP_ENDPOINT, value: 'http://other:4318'}]}":                  "config.telemetry.otlp.endpoint leads to other:4318 " + ofTraces,
		"{env: [{name: HAP_NATS_URL, value: 'nats://other'}]}":                                      "config.nats.url leads to other " + ofNATS,
		"{plainConnections: {nats: true}, config: {redis: {url: 'redis://redis'}}}":                 "plainConnections.redis",
		// allowed
		"{}": "",
		"{config: {nats: {url: 'nats://nats', tls: {ca: /ca}}}}":                                                            "",
		"{config: {nats: {url: 'nats://127.0.0.1,nats://[::1]:4222'}, redis: {url: 'redis://LOCALHOST.:6379'}}}":            "",
		"{config: {telemetry: {otlp: {endpoint: 'https://otel'}}}}":                                                         "",
		"{config: {telemetry: {otlp: {endpoint: 'otel:4318'}}}}":                                                            "",
		"{config: {telemetry: {otlp: {endpoint: 'localhost:4318', insecure: true}}}}":                                       "",
		"{config: {telemetry: {otlp: {endpoint: 'http://otel'}}}, plainConnections: {otlp: true}}":                          "",
		"{config: {redis: {url: 'unix:///run/redis.sock'}}}":                                                                "",
		"{config: {nats: {url: 'nats://nats'}}, plainConnections: {nats: true}}":                                            "",
		"{config: {redis: {url: 'redis://redis'}}, plainConnections: {redis: true}}":                                        "",
		"{config: {nats: {url: 'nats://nats'}}, env: [{name: HAP_NATS_URL, valueFrom: {secretKeyRef: {name: a, key: b}}}]}": "",
	} {
		_, err := renderOf(t, both, values)
		if says == "" {
			if err != nil {
				t.Errorf("%s: %v", values, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v\nwant %s", values, err, says)
		} else if strings.Contains(err.Error(), "geheim") {
			t.Errorf("%s: a secret is shown: %v", values, err)
		}
	}
	if _, err := renderOf(t); err == nil || !strings.Contains(err.Error(), "plainConnections") {
		t.Errorf("the chart's own values: %v", err)
	}
}
