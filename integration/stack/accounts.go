package stack

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// Account is a hyperscaler account, for which the stack creates a binding.
type Account struct {
	Name            string            `json:"name"`
	HyperscalerType string            `json:"hyperscalerType"`
	Labels          map[string]string `json:"labels,omitempty"`
	// Kind is CredentialsBinding, SecretBinding or Secret. Defaults to the kind of
	// the configuration's gardener.resource.
	Kind string `json:"kind,omitempty"`
	// Clusters is how many Shoots use the account already. Defaults to none.
	Clusters int `json:"clusters,omitempty"`
}

//go:embed accounts.yaml
var demoAccounts []byte

// DemoAccounts are enough for fifteen clusters or more in each dedicated pool of the initial rules, at three for each
// account. A few of them must not be assigned.
func DemoAccounts() []Account {
	accounts, err := ReadAccounts(demoAccounts)
	if err != nil {
		panic(err) // embedded: wrong in every build or in none
	}
	return accounts
}

// ReadAccounts reads a YAML list of accounts. The error has all faults, one per
// line, each with the index of its account.
func ReadAccounts(data []byte) ([]Account, error) {
	accounts := []Account{}
	if err := yaml.UnmarshalStrict(data, &accounts); err != nil {
		return nil, fmt.Errorf("accounts: %w", err)
	}
	var faults []error
	seen := map[string]bool{}
	for i, a := range accounts {
		for _, fault := range a.faults() {
			faults = append(faults, fmt.Errorf("accounts[%d]: %s", i, fault))
		}
		key := a.Kind + "/" + a.Name
		if seen[key] {
			faults = append(faults, fmt.Errorf("accounts[%d].name: %q is there twice", i, a.Name))
		}
		seen[key] = true
	}
	return accounts, errors.Join(faults...)
}

func (a Account) faults() []string {
	var faults []string
	for _, fault := range validation.IsDNS1123Subdomain(a.Name) {
		faults = append(faults, fmt.Sprintf("name %q: %s", a.Name, fault))
	}
	if a.Clusters < 0 {
		faults = append(faults, fmt.Sprintf("clusters is %d, must not be negative", a.Clusters))
	}
	if a.HyperscalerType == "" {
		faults = append(faults, "hyperscalerType is missing")
	}
	for _, fault := range validation.IsValidLabelValue(a.HyperscalerType) {
		faults = append(faults, fmt.Sprintf("hyperscalerType %q: %s", a.HyperscalerType, fault))
	}
	for _, key := range slices.Sorted(maps.Keys(a.Labels)) {
		for _, fault := range append(validation.IsQualifiedName(key), validation.IsValidLabelValue(a.Labels[key])...) {
			faults = append(faults, fmt.Sprintf("label %s=%s: %s", key, a.Labels[key], fault))
		}
	}
	if _, known := kinds[a.Kind]; a.Kind != "" && !known {
		faults = append(faults, fmt.Sprintf("kind %q is none of CredentialsBinding, SecretBinding, Secret", a.Kind))
	}
	return faults
}

// kinds are the resources that can be bindings.
var kinds = map[string]schema.GroupVersionResource{
	"CredentialsBinding": {Group: "security.gardener.cloud", Version: "v1alpha1", Resource: "credentialsbindings"},
	"SecretBinding":      {Group: "core.gardener.cloud", Version: "v1beta1", Resource: "secretbindings"},
	"Secret":             {Version: "v1", Resource: "secrets"},
}

// kindOf returns the kind of a resource, as gardener.resource names it.
func kindOf(resource string) (string, error) {
	for kind, gvr := range kinds {
		if gvr.Resource == resource {
			return kind, nil
		}
	}
	return "", fmt.Errorf("gardener.resource: %q is none of credentialsbindings, secretbindings, secrets", resource)
}

// object returns the binding of the account.
func (a Account) object(kind string, t Target) *unstructured.Unstructured {
	gvr := kinds[kind]
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetAPIVersion(gvr.GroupVersion().String())
	o.SetKind(kind)
	o.SetName(a.Name)
	named := map[string]string{t.Labels.key("hyperscalerType"): a.HyperscalerType}
	for key, value := range a.Labels {
		named[t.Labels.key(key)] = value
	}
	o.SetLabels(named)
	provider := a.provider()
	switch kind {
	case "CredentialsBinding":
		o.Object["provider"] = map[string]any{"type": provider}
		o.Object["credentialsRef"] = map[string]any{"apiVersion": "v1", "kind": "Secret", "name": a.Name, "namespace": t.Namespace}
	case "SecretBinding":
		o.Object["provider"] = map[string]any{"type": provider}
		o.Object["secretRef"] = map[string]any{"name": a.Name, "namespace": t.Namespace}
	case "Secret":
		o.Object["type"] = "Opaque"
	}
	return o
}

// provider is Gardener's provider type of the hyperscaler.
func (a Account) provider() string {
	provider, _, _ := strings.Cut(a.HyperscalerType, "_")
	return provider
}

// seeders is the number of accounts that are created concurrently.
const seeders = 16

// CreateAccounts creates the bindings of the accounts, and the Shoots that use them. It leaves existing
// objects as they are, so a stack that is restarted on its data keeps its claims. An account without a kind
// has the kind of t.Resource. A Secret also gets an unlabelled SecretBinding of its name, because a Shoot
// cannot name a Secret. With gardener-apiserver, the Secret of each binding is created first: the server
// requires it.
func CreateAccounts(ctx context.Context, cfg *rest.Config, t Target, accounts []Account) error {
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return err
	}
	usual, err := kindOf(t.Resource)
	if err != nil {
		return err
	}
	var secrets, bindings []*unstructured.Unstructured
	for _, a := range accounts {
		kind := a.Kind
		if kind == "" {
			kind = usual
		}
		if kind == "Secret" {
			reference := a.object("SecretBinding", t)
			reference.SetLabels(nil)
			secrets, bindings = append(secrets, a.object(kind, t)), append(bindings, reference)
			continue
		}
		bindings = append(bindings, a.object(kind, t))
		if t.Gardener != nil {
			secret := a.object("Secret", t)
			secret.SetLabels(nil)
			secrets = append(secrets, secret)
		}
	}
	// Secrets come first: gardener-apiserver waits for a Secret that its watch has not brought yet.
	if err := create(ctx, client, t, secrets); err != nil {
		return err
	}
	if err := create(ctx, client, t, bindings); err != nil {
		return err
	}
	return createClusters(ctx, client, t, accounts)
}

func create(ctx context.Context, client dynamic.Interface, t Target, objects []*unstructured.Unstructured) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(seeders)
	for _, o := range objects {
		group.Go(func() error {
			_, err := client.Resource(kinds[o.GetKind()]).Namespace(t.Namespace).Create(ctx, o, metav1.CreateOptions{})
			if err != nil && !apierrors.IsAlreadyExists(err) {
				return fmt.Errorf("account %s: %w", o.GetName(), err)
			}
			return nil
		})
	}
	return group.Wait()
}
