package chart_test

import (
	"fmt"
	"strings"
	"testing"
)

// TestEgressPorts: the network policy opens the ports of the URLs that the worker uses, and those of the Redis servers
// that it learns of. Where the URLs come from a Secret, no port is known, and each is open.
func TestEgressPorts(t *testing.T) {
	t.Parallel()
	const peers = "{networkPolicy: {nats: [{podSelector: {matchLabels: {app: nats}}}], redis: [{podSelector: {matchLabels: {app: redis}}}], kubernetes: [{podSelector: {}}]}}"
	for values, want := range map[string]string{
		"": "nats 4222, redis 6379",
		"{config: {nats: {url: 'tls://a:4333, wss://b'}}}":                                                      "nats 4333 443, redis 6379",
		"{config: {nats: {url: ['WSS://b/path', 'ws://c']}}}":                                                   "nats 443 80, redis 6379",
		"{env: [{name: HAP_NATS_URL, value: 'tls://a:4333'}, {name: HAP_REDIS_URL, value: 'rediss://b:6380'}]}": "nats 4333, redis 6380",
		"{env: [{name: HAP_REDIS_URL, valueFrom: {secretKeyRef: {name: a, key: b}}}]}":                          "nats 4222, redis",
		"{config: {redis: {url: 'redis://a:26379', sentinelMaster: mymaster}}}":                                 "nats 4222, redis 26379 6379",
		"{config: {redis: {url: 'redis://a:7000', cluster: true}}}":                                             "nats 4222, redis 7000 6379",
		"{config: {redis: {url: 'redis://a:7000,redis://b:7001'}}}":                                             "nats 4222, redis 7000 7001 6379",
	} {
		out, err := renderOf(t, decided, peers, values)
		if err != nil {
			t.Errorf("%s: %v", values, err)
			continue
		}
		var got []string
		for _, rule := range value(t, out["networkpolicy.yaml"][0], "spec", "egress").([]any)[1:3] {
			rule := rule.(map[string]any)
			to := sigs(t, rule["to"])
			words := []string{strings.TrimSpace(to[strings.LastIndex(to, ":")+1:])}
			ports, _ := rule["ports"].([]any)
			for _, port := range ports {
				words = append(words, fmt.Sprint(toInt(port.(map[string]any)["port"])))
			}
			got = append(got, strings.Join(words, " "))
		}
		if text := strings.Join(got, ", "); text != want {
			t.Errorf("%s: the ports are %s, want %s", values, text, want)
		}
	}
}
