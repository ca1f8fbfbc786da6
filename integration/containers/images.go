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

// The project's images, and upstream images for a machine that reaches a registry.
const (
	workerImage   = "hap-worker/hap-worker:dev"
	kubeImage     = "hap-worker/kubeapi:dev"
	gardenerImage = "hap-worker/gardenerapi:dev"
	lightImage    = "hap-worker/lightapi:dev"
	holeImage     = "hap-worker/blackhole:dev"
	natsImage     = "hap-worker/nats:dev"
	redisImage    = "hap-worker/redis:dev"
	upstreamNATS  = "nats:2.15.2"
	upstreamRedis = "redis:7.4"
)

// images are the images of the containers; gardener is "" if the Gardener kinds are CRDs.
type images struct{ worker, kube, gardener, nats, redis, hole string }

// buildImages builds the images that are out of date from the checkout. With HAP_IMAGES=upstream, NATS and
// Redis are upstream images, which need a registry; with HAP_IMAGES=present, no image is built.
func buildImages(ctx context.Context, o Options) (images, error) {
	i := images{worker: workerImage, kube: kubeImage, nats: natsImage, redis: redisImage, hole: holeImage}
	names := []string{"hap-worker", "blackhole"}
	switch o.Gardener {
	case stack.LightGardener:
		i.kube = lightImage
		names = append(names, "lightapi")
	case stack.CRDGardener:
		names = append(names, "kubeapi")
	case stack.RealGardener, "":
		i.gardener = gardenerImage
		names = append(names, "kubeapi", "gardenerapi")
	default:
		return i, fmt.Errorf("gardener is %q, must be %s, %s or %s", o.Gardener, stack.RealGardener, stack.CRDGardener, stack.LightGardener)
	}
	switch asked := os.Getenv("HAP_IMAGES"); asked {
	case "", "scratch":
		names = append(names, "nats", "redis")
	case "upstream":
		i.nats, i.redis = upstreamNATS, upstreamRedis
	case "present":
		return i, nil
	default:
		return i, fmt.Errorf("HAP_IMAGES is %q, must be scratch, upstream or present", asked)
	}
	return i, BuildImages(ctx, o.Talk, names...)
}

// BuildImages builds images with deploy/images.sh, unless they are up to date; without names, those of
// docker-compose.yaml.
func BuildImages(ctx context.Context, talk io.Writer, names ...string) error {
	root, err := stack.Root()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(root, "deploy", "images.sh"), names...)
	cmd.Dir = root
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = io.Discard, io.MultiWriter(talk, &said)
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("deploy/images.sh: %w\n%s", err, said.Bytes())
	}
	return nil
}
