package containers

import (
	"context"
	"fmt"
	"strconv"
)

// Worker is a hap-worker in a container.
type Worker struct {
	system    *System
	container *container
}

// newWorker starts a worker, and does not wait until it is ready.
func (l *Landscape) newWorker(ctx context.Context, number int) (*Worker, error) {
	s := l.system
	networks := map[string][]string{}
	for _, n := range s.networks {
		networks[n.Name] = []string{fmt.Sprintf("worker-%d-%s", number, l.name)}
	}
	c, err := start(ctx, spec{
		image: s.images.worker, command: []string{"--config", "/etc/hap-worker.yaml"}, networks: networks,
		files: map[string][]byte{"/etc/hap-worker.yaml": l.config, "/etc/kubeconfig": s.Kube.kubeconfig},
		env: map[string]string{
			"HAP_NATS_URL": s.NATS.urls(l.name), "HAP_NATS_REPLICAS": strconv.Itoa(nodes),
			"HAP_REDIS_URL": l.redis.inside, "HAP_REDIS_CLUSTER": strconv.FormatBool(l.redis.cluster),
			"HAP_REDIS_SENTINEL_MASTER": l.redis.master, "HAP_REDIS_PREFIX": l.name,
			"HAP_GARDENER_KUBECONFIG": "/etc/kubeconfig", "HAP_GARDENER_NAMESPACE": l.target.Namespace,
			"HAP_GARDENER_RESOURCE": l.target.Resource,
		},
	})
	return &Worker{system: s, container: c}, err
}

// Ready returns nil if the worker is ready, and otherwise an error that says why not.
func (w *Worker) Ready(ctx context.Context) error {
	return w.container.runs(ctx, "/hap-worker", "healthcheck")
}

// AwaitReady returns when the worker is ready.
func (w *Worker) AwaitReady(ctx context.Context) error { return w.container.await(ctx, w.Ready) }

// Cut disconnects the worker from a part's network: packets in both directions are lost without an error.
func (w *Worker) Cut(ctx context.Context, from Part) error {
	return w.container.cut(ctx, w.system.docker, w.system.networks[from])
}

// Heal reconnects the worker to the part's network. The engine chooses the worker's address anew.
func (w *Worker) Heal(ctx context.Context, to Part) error {
	return w.container.join(ctx, w.system.docker, w.system.networks[to])
}

// Restart stops the worker, starts it again, and returns when it is ready. It is an error if the worker did not exit
// with code 0.
func (w *Worker) Restart(ctx context.Context) error {
	if err := w.container.stop(ctx); err != nil {
		return err
	}
	state, err := w.container.State(ctx)
	if err != nil {
		return err
	}
	if state.ExitCode != 0 {
		return fmt.Errorf("the worker ended with code %d: %s", state.ExitCode, w.container.tail(ctx))
	}
	if err := w.container.Start(ctx); err != nil {
		return err
	}
	return w.AwaitReady(ctx)
}

// Log returns the worker's output, over all restarts.
func (w *Worker) Log(ctx context.Context) ([]byte, error) { return w.container.log(ctx) }
