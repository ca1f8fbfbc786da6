package containers

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/hap-worker/hap-worker/integration/stack"
)

// The images that are the project's own, and those of others where a registry is reachable.
const (
	workerImage  = "hap-worker/hap-worker:dev"
	kubeImage    = "hap-worker/kubeapi:dev"
	natsImage    = "hap-worker/nats:dev"
	redisImage   = "hap-worker/redis:dev"
	upstreamNATS = "nats:2.15.2"
	upstreamRDB  = "redis:7.4"
)

// images are what the containers are made of.
type images struct{ worker, kube, nats, redis string }

// Upstream reports whether the images of NATS and Redis are those of their makers,
// which a registry has to hand out: HAP_IMAGES=upstream asks for it.
func Upstream() bool { return os.Getenv("HAP_IMAGES") == "upstream" }

// buildImages makes what is not up to date, from the checkout.
func buildImages(ctx context.Context, talk io.Writer) (images, error) {
	root, err := stack.Root()
	if err != nil {
		return images{}, err
	}
	i := images{worker: workerImage, kube: kubeImage, nats: natsImage, redis: redisImage}
	names := []string{"hap-worker", "kubeapi"}
	if Upstream() {
		i.nats, i.redis = upstreamNATS, upstreamRDB
	} else {
		names = append(names, "nats", "redis")
	}
	cmd := exec.CommandContext(ctx, filepath.Join(root, "deploy", "images.sh"), names...)
	cmd.Dir = root
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = io.Discard, io.MultiWriter(talk, &said)
	if err := cmd.Run(); err != nil {
		return i, fmt.Errorf("deploy/images.sh: %w\n%s", err, said.Bytes())
	}
	return i, nil
}
