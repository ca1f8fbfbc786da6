package config

import (
	"net/url"
	"time"
)

func (n *NATS) check(wrong *faults) {
	users := 0
	urls := checkURLs(wrong, "nats.url", n.URL, "nats", "tls", "ws", "wss")
	for _, u := range urls {
		if u.User != nil {
			users = 1
		}
	}
	for _, file := range []string{n.Credentials, n.NKey} {
		if file != "" {
			users++
		}
	}
	if users > 1 {
		wrong.add("nats", "has more than one login: keep only one of credentials, nkey and the user in url")
	}
	n.TLS.check(wrong, "nats.tls")
	noContents(wrong, "nats.credentials", n.Credentials)
	noContents(wrong, "nats.nkey", n.NKey)
	matches(wrong, "nats.prefix", n.Prefix, subjectPrefix, "the beginning of a subject")
	if n.Replicas != 1 && n.Replicas != 3 {
		wrong.add("nats.replicas", "%d must be 1 or 3", n.Replicas)
	}
	if n.MaxBytes < 1<<20 {
		wrong.add("nats.maxBytes", "%s must be at least 1Mi", formatBytes(n.MaxBytes))
	}
	lasts(wrong, "nats.retention", n.Retention, time.Hour)
	atLeast(wrong, "nats.maxAckPending", n.MaxAckPending, 1)
}

func (r *Redis) check(wrong *faults) {
	urls := checkURLs(wrong, "redis.url", r.URL, "redis", "rediss", "unix")
	schemes := map[string]bool{}
	for _, u := range urls {
		schemes[u.Scheme] = true
		if u.User != nil && (r.Username != "" || r.PasswordFile != "") {
			wrong.add("redis", "has two users: one in url, one in username or passwordFile")
		}
	}
	if len(schemes) > 1 {
		wrong.add("redis.url", "mixes servers with and without TLS")
	}
	if r.Cluster && r.SentinelMaster != "" {
		wrong.add("redis.cluster", "cannot be combined with sentinelMaster")
	}
	switch {
	case r.SentinelUsername != "" && r.SentinelPasswordFile == "":
		wrong.add("redis.sentinelPasswordFile", "is required with sentinelUsername")
	case r.SentinelPasswordFile != "" && r.SentinelMaster == "":
		wrong.add("redis.sentinelMaster", "is required with sentinelPasswordFile")
	}
	r.TLS.check(wrong, "redis.tls")
	noContents(wrong, "redis.passwordFile", r.PasswordFile)
	noContents(wrong, "redis.sentinelPasswordFile", r.SentinelPasswordFile)
	matches(wrong, "redis.prefix", r.Prefix, keyPrefix, "the beginning of a key: letters, digits and _ . : - only")
	atLeast(wrong, "redis.poolSize", r.PoolSize, 1)
}

func (t *TLS) check(wrong *faults, path string) {
	if (t.Cert == "") != (t.Key == "") {
		wrong.add(path, "needs cert and key together, or neither")
	}
	noContents(wrong, path+".ca", t.CA)
	noContents(wrong, path+".cert", t.Cert)
	noContents(wrong, path+".key", t.Key)
}

// noContents adds a fault if text is the content of a file instead of its path.
func noContents(wrong *faults, path, text string) {
	if inline(text) {
		wrong.add(path, "must be the path of a file, not its content")
	}
}

func checkURLs(wrong *faults, path string, urls URLs, schemes ...string) []*url.URL {
	if len(urls) == 0 {
		wrong.add(path, "needs at least one server")
	}
	var parsed []*url.URL
	for i, text := range urls {
		at := path
		if len(urls) > 1 {
			at = element(path, i)
		}
		if u := checkURL(wrong, at, text, schemes...); u != nil {
			parsed = append(parsed, u)
		}
	}
	return parsed
}
