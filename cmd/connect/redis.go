package connect

import (
	"context"
	"fmt"

	"github.com/hap-worker/hap-worker/counters"
	"github.com/hap-worker/hap-worker/worker/config"
)

// Redis makes the store of counts, without asking the server anything.
func Redis(c config.Redis) (*counters.Store, error) {
	o := counters.Options{
		URLs: c.URL, Cluster: c.Cluster, SentinelMaster: c.SentinelMaster, Username: c.Username,
		Prefix: c.Prefix, PoolSize: c.PoolSize,
	}
	if c.PasswordFile != "" {
		o.Password = func(context.Context) (string, error) {
			password, err := secretFile(c.PasswordFile)
			if err != nil {
				return "", fmt.Errorf("redis.passwordFile: %w", err)
			}
			return password, nil
		}
	}
	if c.TLS != (config.TLS{}) {
		secure, err := tlsConfig(c.TLS, "redis.tls")
		if err != nil {
			return nil, err
		}
		o.TLS = secure
	}
	store, err := counters.Open(o)
	if err != nil {
		return nil, fmt.Errorf("redis.url: %w", err)
	}
	return store, nil
}
