package connect

import (
	"context"
	"crypto/tls"
	"fmt"

	"github.com/hap-worker/hap-worker/counters"
	"github.com/hap-worker/hap-worker/counters/connection"
	"github.com/hap-worker/hap-worker/worker/config"
)

// Redis returns the store of the records and counts in Redis. It makes no request.
func Redis(c config.Redis) (*counters.Store, error) {
	o := connection.Options{
		URLs: c.URL, Cluster: c.Cluster, SentinelMaster: c.SentinelMaster, Username: c.Username,
		PoolSize: c.PoolSize, SentinelUsername: c.SentinelUsername,
		Password:         passwordIn(c.PasswordFile, "redis.passwordFile"),
		SentinelPassword: passwordIn(c.SentinelPasswordFile, "redis.sentinelPasswordFile"),
	}
	if c.TLS != (config.TLS{}) {
		o.TLS = func() (*tls.Config, error) { return tlsConfig(c.TLS, "redis.tls") }
		if _, err := o.TLS(); err != nil {
			return nil, err
		}
	}
	store, err := counters.Open(o, c.Prefix)
	if err != nil {
		return nil, fmt.Errorf("redis.url: %w", err)
	}
	return store, nil
}

// passwordIn returns the function that reads the password from the file at every connection, so that an
// operator can change it under a running worker; nil if file is "". Errors of the function begin with key.
func passwordIn(file, key string) func(context.Context) (string, error) {
	if file == "" {
		return nil
	}
	return func(context.Context) (string, error) {
		password, err := secretFile(file)
		if err == nil && password == "" {
			// With an empty password the client would not authenticate, and would keep a connection that may send no command.
			err = fmt.Errorf("%s is empty", file)
		}
		if err != nil {
			return "", fmt.Errorf("%s: %w", key, err)
		}
		return password, nil
	}
}
