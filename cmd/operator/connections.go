package operator

import (
	"cmp"
	"os"
	"slices"

	"github.com/spf13/pflag"

	"github.com/hap-worker/hap-worker/worker/config"
)

// connections are the flags that say what hapctl talks to.
type connections struct {
	config, natsURL, redisURL, kubeconfig string
	context, namespace                    string // of the kubeconfig
}

// file is the configuration file, "" for none.
func (c *connections) file() string { return cmp.Or(c.config, os.Getenv("HAP_CONFIG")) }

func (c *connections) flags(flags *pflag.FlagSet) {
	flags.StringVar(&c.config, "config", "", "hap-worker's configuration `file`; hapctl reads connections and rules from it (default: HAP_CONFIG)")
	flags.StringVar(&c.natsURL, "nats-url", "", "`URL` of NATS (default: HAP_NATS_URL, then nats.url of --config)")
	flags.StringVar(&c.redisURL, "redis-url", "", "`URL` of Redis (default: HAP_REDIS_URL, then redis.url of --config)")
	flags.StringVarP(&c.namespace, "namespace", "n", "", "`namespace` of the accounts (default: HAP_GARDENER_NAMESPACE, then gardener.namespace of --config, then the namespace of the kubeconfig's context)")
	flags.StringVar(&c.context, "context", "", "`context` of the kubeconfig (default: its current context)")
	flags.StringVar(&c.kubeconfig, "kubeconfig", "", "kubeconfig `file` of Gardener (default: gardener.kubeconfig of --config, then KUBECONFIG)")
}

// settings is the configuration that a command connects by: that of the daemon,
// with the environment above the file and the flags above both. An error is a
// document.Faults with all faults.
func (c *connections) settings() (*config.Config, error) {
	return config.Load(c.file(), c.environment(os.Environ()))
}

// environment puts the flags into the variables of the same names.
func (c *connections) environment(env []string) []string {
	env = slices.Clone(env)
	for _, v := range [][2]string{
		{"HAP_NATS_URL", c.natsURL},
		{"HAP_REDIS_URL", c.redisURL},
		{"HAP_GARDENER_KUBECONFIG", c.kubeconfig},
		{"HAP_GARDENER_NAMESPACE", c.namespace},
	} {
		if v[1] != "" {
			env = append(env, v[0]+"="+v[1])
		}
	}
	return env
}
