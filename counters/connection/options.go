// Package connection connects to Redis: one server, a cluster, or a master behind sentinels. It also
// checks whether a server's settings are safe.
package connection

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Options say where Redis is.
type Options struct {
	// URLs are the servers, redis://, rediss:// or unix://: one, several of a cluster, or the sentinels. User,
	// password, database, TLS and the parameters protocol, max_retries, dial_timeout, read_timeout and
	// write_timeout of redis.ParseURL are read from the first; its other parameters are ignored.
	URLs []string
	// Cluster says that a single URL is the way into a Redis Cluster. Several URLs without a SentinelMaster
	// are those of a cluster, unless the first is a unix:// one: then it is the only server.
	Cluster bool
	// SentinelMaster is the name of the master that the sentinels watch.
	// Defaults to none: URLs are not sentinels.
	SentinelMaster string
	// SentinelUsername is the user at the sentinels. Defaults to none.
	SentinelUsername string
	// SentinelPassword is called for every new connection to a sentinel. Defaults to none; a password
	// in the URL is for the master.
	SentinelPassword func(context.Context) (string, error)
	// Username is the user. Defaults to the URL's.
	Username string
	// Password is called for every new connection. Defaults to the URL's.
	Password func(context.Context) (string, error)
	// TLS is called for every new connection if the URL begins with rediss. Defaults to the system's
	// certificate authorities.
	TLS func() (*tls.Config, error)
	// PoolSize is the largest number of connections to each server, besides those of lanes and pipelines. Defaults
	// to 10 per CPU, in a cluster to 5.
	PoolSize int
	// Timeout bounds a connection's set-up, each read and each write. Defaults to the URL's time-outs, and
	// those to 5 s.
	Timeout time.Duration
}

// Client returns a new client that shares no connections with others, and connects at its first call.
// The error says that there is no URL, or which URL cannot be read.
func (o Options) Client() (redis.UniversalClient, error) {
	if len(o.URLs) == 0 {
		return nil, errors.New("no URL of Redis is given")
	}
	var first *redis.Options
	u := &redis.UniversalOptions{
		MasterName: o.SentinelMaster, IsClusterMode: o.Cluster, PoolSize: o.PoolSize, OnConnect: refuse,
		// A call ends with its context instead of outliving its event.
		ContextTimeoutEnabled: true,
		// Older servers answer the commands of both features with an error on every connection.
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	for n, text := range o.URLs {
		parsed, err := redis.ParseURL(text)
		if err != nil {
			// The URL itself, and what ParseURL says of it, may hold a password.
			return nil, fmt.Errorf("URL %d of Redis is not a valid redis://, rediss:// or unix:// URL", n+1)
		}
		if first == nil {
			first = parsed
		}
		u.Addrs = append(u.Addrs, parsed.Addr)
	}
	u.DB, u.Username, u.Password, u.TLSConfig = first.DB, first.Username, first.Password, first.TLSConfig
	u.Protocol, u.MaxRetries = first.Protocol, first.MaxRetries
	o.apply(u, first)
	if strings.HasPrefix(first.Addr, "/") { // a socket leads to one server, not to a cluster
		simple := u.Simple()
		simple.Network = first.Network
		return redis.NewClient(simple), nil
	}
	if o.SentinelMaster != "" {
		return o.behindSentinels(u.Failover()), nil
	}
	return redis.NewUniversalClient(u), nil
}

// apply overrides the settings of the URL by those of the options.
func (o Options) apply(u *redis.UniversalOptions, first *redis.Options) {
	u.DialTimeout, u.ReadTimeout, u.WriteTimeout = first.DialTimeout, first.ReadTimeout, first.WriteTimeout
	if o.Timeout > 0 {
		u.DialTimeout, u.ReadTimeout, u.WriteTimeout = o.Timeout, o.Timeout, o.Timeout
	}
	if first.TLSConfig != nil {
		names := make([]string, 0, len(u.Addrs)) // of the URLs
		for _, address := range u.Addrs {
			names = append(names, hostOf(address))
		}
		u.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
			secure := first.TLSConfig.Clone()
			if o.TLS != nil {
				var err error
				if secure, err = o.TLS(); err != nil {
					return nil, err
				}
			}
			verifyAs(secure, append([]string{hostOf(address)}, names...))
			return redis.NewDialer(&redis.Options{DialTimeout: u.DialTimeout, TLSConfig: secure})(ctx, network, address)
		}
	}
	if o.Username != "" {
		u.Username = o.Username
	}
	if o.Password != nil {
		user := u.Username
		u.CredentialsProviderContext = func(ctx context.Context) (string, string, error) {
			password, err := o.Password(ctx)
			return user, password, err
		}
	}
}
