package cli

import (
	"cmp"
	"os"
	"slices"

	"github.com/spf13/pflag"

	"github.com/hap-worker/hap-worker/worker/config"
)

// Connections are the flags for the servers to which hapctl connects.
type Connections struct {
	Config, natsURL, redisURL, kubeconfig string
	Context, Namespace                    string // context of the kubeconfig, namespace of the bindings
}

// File returns the configuration file, "" for none.
func (c *Connections) File() string { return cmp.Or(c.Config, os.Getenv("HAP_CONFIG")) }

func (c *Connections) flags(flags *pflag.FlagSet) {
	flags.StringVar(&c.Config, "config", "", "hap-worker's configuration `file`; hapctl reads connections and rules from it (default: HAP_CONFIG)")
	flags.StringVar(&c.natsURL, "nats-url", "", "`URL` of NATS (default: HAP_NATS_URL, then nats.url of --config)")
	flags.StringVar(&c.redisURL, "redis-url", "", "`URL` of Redis (default: HAP_REDIS_URL, then redis.url of --config)")
	flags.StringVarP(&c.Namespace, "namespace", "n", "", "`namespace` of the accounts (default: HAP_GARDENER_NAMESPACE, then gardener.namespace of --config, then the namespace of the kubeconfig's context)")
	flags.StringVar(&c.Context, "context", "", "`context` of the kubeconfig (default: its current context)")
	flags.StringVar(&c.kubeconfig, "kubeconfig", "", "kubeconfig `file` of Gardener (default: HAP_GARDENER_KUBECONFIG, then gardener.kubeconfig of --config, then that of kubectl)")
}

// Settings returns the configuration with which a command connects. It is loaded like the daemon's: the
// environment overrides the file, and the flags override both. The error is a document.Faults with all
// faults.
func (c *Connections) Settings() (*config.Config, error) {
	return config.Load(c.File(), c.environment(os.Environ()))
}

// environment returns env with the flags that are not "" as variables.
func (c *Connections) environment(env []string) []string {
	env = slices.Clone(env)
	for _, v := range [][2]string{
		{"HAP_NATS_URL", c.natsURL},
		{"HAP_REDIS_URL", c.redisURL},
		{"HAP_GARDENER_KUBECONFIG", c.kubeconfig},
		{"HAP_GARDENER_NAMESPACE", c.Namespace},
	} {
		if v[1] != "" {
			env = append(env, v[0]+"="+v[1])
		}
	}
	return env
}

// Source is the CloudEvents source of the events that hapctl publishes.
const Source = "/hapctl"
