package operator

import (
	"os"
	"slices"

	"github.com/spf13/pflag"

	"github.com/hap-worker/hap-worker/worker/config"
)

// connections are the flags that say what hapctl talks to.
type connections struct {
	config, natsURL, redisURL, kubeconfig string
}

func (c *connections) flags(flags *pflag.FlagSet) {
	flags.StringVar(&c.config, "config", "", "hap-worker's configuration `file`, for connections and rules")
	flags.StringVar(&c.natsURL, "nats-url", "", "`URL` of NATS (default: HAP_NATS_URL, else nats.url of --config)")
	flags.StringVar(&c.redisURL, "redis-url", "", "`URL` of Redis (default: HAP_REDIS_URL, else redis.url of --config)")
	flags.StringVar(&c.kubeconfig, "kubeconfig", "", "kubeconfig `file` of Gardener (default: gardener.kubeconfig of --config, else KUBECONFIG)")
}

// settings is the configuration that a command connects by: that of the daemon,
// with the environment above the file and the flags above both. An error is a
// *config.Invalid with all faults.
func (c *connections) settings() (*config.Config, error) {
	return config.Load(c.config, c.environment(os.Environ()))
}

// environment puts the flags into the variables of the same names.
func (c *connections) environment(env []string) []string {
	env = slices.Clone(env)
	for _, v := range [][2]string{
		{"HAP_NATS_URL", c.natsURL},
		{"HAP_REDIS_URL", c.redisURL},
		{"HAP_GARDENER_KUBECONFIG", c.kubeconfig},
	} {
		if v[1] != "" {
			env = append(env, v[0]+"="+v[1])
		}
	}
	return env
}
