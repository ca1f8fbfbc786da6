package stack

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

// gardenLimit is how long gardener-apiserver, once ready, may take to serve an object: kube-apiserver has to
// find it, and its caches have to catch up.
const gardenLimit = time.Minute

var gardenResources = map[string]schema.GroupVersionResource{
	"Service":                {Version: "v1", Resource: "services"},
	"APIService":             {Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"},
	"ControllerRegistration": {Group: "core.gardener.cloud", Version: "v1beta1", Resource: "controllerregistrations"},
	"CloudProfile":           {Group: "core.gardener.cloud", Version: "v1beta1", Resource: "cloudprofiles"},
	"Project":                {Group: "core.gardener.cloud", Version: "v1beta1", Resource: "projects"},
}

// gardenObjects are the objects of a garden; providerObjects are those of one provider type.
var (
	//go:embed garden.yaml
	gardenObjects string
	//go:embed provider.yaml
	providerObjects string
)

// providers are the provider types that Shoots may have without an account of that type.
var providers = []string{"alicloud", "aws", "azure", "gcp", "openstack"}

// seedGarden applies the objects that must exist before the first account: the APIServices, the objects
// against which Shoots are validated, and the Project of the namespace.
func seedGarden(ctx context.Context, client dynamic.Interface, t Target, accounts []Account) error {
	ctx, cancel := context.WithTimeoutCause(ctx, gardenLimit, fmt.Errorf("gardener-apiserver does not serve after %s", gardenLimit))
	defer cancel()
	manifests := []string{strings.NewReplacer(
		"$host", t.Gardener.Host, "$port", fmt.Sprint(t.Gardener.Port),
		"$project", projectOf(t.Namespace), "$namespace", t.Namespace,
	).Replace(gardenObjects)}
	types := slices.Clone(providers)
	for _, a := range accounts {
		types = append(types, a.provider())
	}
	slices.Sort(types)
	for _, provider := range slices.Compact(types) {
		manifests = append(manifests, strings.ReplaceAll(providerObjects, "$provider", provider))
	}
	for _, manifest := range manifests {
		for document := range strings.SplitSeq(manifest, "\n---\n") {
			o := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(document), &o.Object); err != nil {
				return err
			}
			if err := applySoon(ctx, client, o); err != nil {
				return err
			}
		}
	}
	return nil
}

// applySoon applies an object, and retries until the server accepts it. An invalid object is an error at
// once.
func applySoon(ctx context.Context, client dynamic.Interface, o *unstructured.Unstructured) error {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := apply(ctx, client, gardenResources[o.GetKind()], o)
		if err == nil || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-ticker.C:
		}
	}
}

// projectOf returns the Project name of a namespace: Gardener names a project's namespace garden-<project>,
// and permits ten characters.
func projectOf(namespace string) string {
	const longest = 10
	name := strings.TrimPrefix(namespace, "garden-")
	return strings.Trim(name[:min(len(name), longest)], "-")
}

// ShootSpec returns the spec of a valid Shoot: one worker pool, on the account that field names. Without a
// field, the Shoot has no workers, and must not refer to an account.
func ShootSpec(provider, field, binding string) map[string]any {
	spec := map[string]any{
		"cloudProfile": map[string]any{"kind": "CloudProfile", "name": provider},
		"region":       "anywhere",
		"kubernetes":   map[string]any{"version": "1.33.0"}, // from 1.34 on, a Shoot must not name a SecretBinding
		"provider":     map[string]any{"type": provider},
	}
	if field == "" {
		return spec
	}
	spec[field] = binding
	spec["networking"] = map[string]any{"type": "calico", "nodes": "10.250.0.0/16"}
	spec["provider"] = map[string]any{"type": provider, "workers": []any{map[string]any{
		"name": "pool", "minimum": int64(1), "maximum": int64(1), "machine": map[string]any{"type": "small"},
	}}}
	return spec
}
