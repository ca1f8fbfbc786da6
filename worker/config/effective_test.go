package config

import (
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const secret = "hunter2"

// TestSecretsAreHidden puts a secret into each key that can have one, and searches the output for it.
func TestSecretsAreHidden(t *testing.T) {
	t.Parallel()
	c := Default()
	c.NATS.URL = URLs{"nats://user:" + secret + "@a:4222", "nats://" + secret + "@b:4222", "nats://user:" + secret + "%zz@c"}
	c.NATS.Credentials = "-----BEGIN NATS USER JWT-----\n" + secret
	c.NATS.NKey = "SU" + strings.Repeat("A", 49) + secret
	c.NATS.TLS.Key = "-----BEGIN PRIVATE KEY-----" + secret
	c.Redis.URL = URLs{"redis://:" + secret + "@a:6379/0", "redis://a?password=" + secret}
	c.Redis.PasswordFile, c.Redis.SentinelPasswordFile = "first\n"+secret, "first\n"+secret
	c.Telemetry.Page.PasswordFile, c.Telemetry.Page.TokenFile = "first\n"+secret, "-----BEGIN TOKEN-----"+secret
	c.Telemetry.OTLP.Endpoint = "user:" + secret + "@collector:4318"
	c.Telemetry.OTLP.Headers = map[string]string{"authorization": "Bearer " + secret}
	shown := c.String()
	if strings.Contains(shown, secret) {
		t.Errorf("the effective configuration shows a secret:\n%s", shown)
	}
	for _, part := range []string{"user:" + Hidden + "@a:4222", "authorization: " + Hidden, "@b:4222"} {
		if !strings.Contains(shown, part) {
			t.Errorf("the effective configuration lacks %q:\n%s", part, shown)
		}
	}
	if err := c.Validate(); err == nil || strings.Contains(err.Error(), secret) {
		t.Errorf("faults: %v", err)
	}
}

// TestSecretsAreHiddenInFaults: faults show no secrets either, even for values of the wrong type.
func TestSecretsAreHiddenInFaults(t *testing.T) {
	t.Parallel()
	file := "nats: {url: {a: " + secret + "}, credentials: [" + secret + "]}\n" +
		"redis: {url: 'redis://x:" + secret + "@a:b:c', passwordFile: {" + secret + ": 1}}\n" +
		"telemetry: {otlp: {endpoint: 'x://" + secret + "@', headers: " + secret + "}}\n"
	env := []string{"HAP_TELEMETRY_OTLP_HEADERS=" + secret, "HAP_NATS_TLS_KEY=-----BEGIN " + secret, "HAP_REDIS_POOLSIZE=" + secret}
	for _, file := range []string{
		file, "telemetry: {otlp: {headers: {authorization: *" + secret + "}}}", "nats: {credentials: !" + secret + "}\nredis: x",
		"redis: {url:redis://:" + secret + "@a}", "telemetry: {otlp: {headers: {authorization:" + secret + "}}}", "nats:\n  credentials: |\n" + secret,
	} {
		_, err := parse("hap.yaml", []byte(file), env)
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("faults of %s: %v", file, err)
		}
	}
	for _, value := range []string{"{authorization: *" + secret + "}", "{authorization:" + secret + "}", "{authorization: !" + secret} {
		_, err := parse("", nil, []string{"HAP_TELEMETRY_OTLP_HEADERS=" + value})
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("faults of %s: %v", value, err)
		}
	}
}

// TestEffectiveIsAConfiguration: the output can be loaded, and is then unchanged.
func TestEffectiveIsAConfiguration(t *testing.T) {
	t.Parallel()
	c := Default()
	c.HAP.Plans = map[string]Plan{"trial": {Providers: []string{"aws"}, Default: "aws"}}
	c.HAP.MultiHyperscalerAccount.Limits = map[string]int{"default": 3}
	again, err := parse("effective.yaml", c.Effective(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.String() != again.String() {
		t.Errorf("read back:\n%s\nwant:\n%s", again, c)
	}
	var tree map[string]any
	if err := yaml.Unmarshal(c.Effective(), &tree); err != nil || len(tree) != 8 {
		t.Errorf("%d sections, %v", len(tree), err)
	}
}
