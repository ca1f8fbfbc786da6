package integration_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"
)

// together is how many lives run side by side: most of their time they wait.
const together = 8

// TestRealMinimalRights is the whole lifecycle under the rights of deploy: the
// chart's Roles on an API server that asks for rights, the permissions on NATS and the
// users of Redis. With all of them nothing is refused; with any one taken away a step
// ends, so none is superfluous.
func TestRealMinimalRights(t *testing.T) {
	requireRedis(t)
	g := newGround(t)
	for _, resource := range kinds {
		t.Run("with all, "+resource, func(t *testing.T) {
			refused, err := g.live(t.Context(), t.TempDir(), "all-"+resource, resource, nil)
			if err != nil || len(refused) > 0 {
				t.Fatalf("%v; refused:\n%s", err, strings.Join(refused, "\n"))
			}
		})
	}
	t.Run("without one", func(t *testing.T) { withoutEach(t, g) })
}

// withoutEach takes away one right after the other.
func withoutEach(t *testing.T, g *ground) {
	var told sync.Mutex
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(together)
	dir := t.TempDir()
	for n, taken := range removable(t) {
		group.Go(func() error {
			name := fmt.Sprintf("without-%d", n)
			own := filepath.Join(dir, name)
			if err := os.Mkdir(own, 0o700); err != nil {
				return err
			}
			refused, err := g.live(ctx, own, name, taken.resource, &taken.right)
			told.Lock()
			defer told.Unlock()
			switch {
			case err == nil && len(refused) == 0:
				t.Errorf("%s (%s): nobody misses it", taken.name, taken.resource)
			case err == nil && strings.HasPrefix(taken.name, "Redis "):
				// A script has failed. Whether a step ends by it depends on which of its commands
				// was refused: what is tried again may find the rest done.
				t.Logf("%s: %s", taken.name, strings.Join(refused, "; "))
			case err == nil && optional[taken.name]:
				t.Logf("%s (%s): the worker goes on with less: %s", taken.name, taken.resource, strings.Join(refused, "; "))
			case err == nil:
				t.Errorf("%s (%s): all goes on without it, although it is asked for:\n%s", taken.name, taken.resource, strings.Join(refused, "\n"))
			case len(refused) == 0:
				t.Errorf("%s (%s): nothing was refused, and yet %v", taken.name, taken.resource, err)
			default:
				t.Logf("%s: %.200s", taken.name, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

// kinds are those that accounts may be of.
var kinds = []string{"credentialsbindings", "secretbindings", "secrets"}

// exempt are rights whose use is elsewhere, or is not the worker's: other allocators'
// blocks come from ClusterConfigs, Gardener's own API server asks for the right to
// get the Secret of a binding that is changed (TestRealGardenerRights), and only a search
// on the operations page reads dead letters (TestNATSRoles).
var exempt = map[string]bool{
	"Redis hap-worker: +hsetnx": true, "Kubernetes: get secrets": true, `NATS worker: "$JS.API.STREAM.MSG.GET.HAP_DEAD"`: true,
}

// optional are rights that are asked for, and without which a worker warns and goes on:
// those by which landscapes are told apart, which older installations have not given.
var optional = map[string]bool{
	"Kubernetes: get namespaces": true, `NATS worker: "$JS.API.STREAM.UPDATE.HAP_REPLIES"`: true,
}

// removal is a right to be taken away where accounts are of a kind.
type removal struct {
	right
	resource string
}

// removable are all rights: those on Kubernetes for each kind of account that has
// other ones.
func removable(t *testing.T) (all []removal) {
	t.Helper()
	for _, resource := range kinds {
		g, err := readGrants("count", resource)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range g.kubernetesRights() {
			switch {
			case exempt[r.name] && resource != "secrets": // there the accounts are Secrets
			case resource == "secretbindings" && !strings.HasSuffix(r.name, " secretbindings"):
				// Taken away where the accounts are CredentialsBindings: nothing else differs.
			default:
				all = append(all, removal{r, resource})
			}
		}
		if resource != "credentialsbindings" {
			continue
		}
		for _, r := range append(g.natsRights(), g.redisRights("hap-worker")...) {
			if !exempt[r.name] {
				all = append(all, removal{r, resource})
			}
		}
	}
	return all
}
