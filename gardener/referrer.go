package gardener

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/gardener/kube"
)

// reference names a binding of a kind that Shoots can refer to.
type reference struct{ kind, name string }

// referring is the decoded part of a binding that may refer to a Secret.
type referring struct {
	Metadata struct {
		Name              string       `json:"name"`
		DeletionTimestamp *metav1.Time `json:"deletionTimestamp"`
	} `json:"metadata"`

	references `json:",inline"`
}

// references are the two forms of a binding's reference; a binding has one of them.
type references struct {
	SecretRef      target `json:"secretRef"`      // SecretBinding
	CredentialsRef target `json:"credentialsRef"` // CredentialsBinding
}

func (r *references) credentials() target {
	if r.CredentialsRef != (target{}) {
		return r.CredentialsRef
	}
	return r.SecretRef
}

type target struct {
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
}

// bySecret is the name of the index of the referrers' caches by Secret.
const bySecret = "secret"

// watchReferrers creates the caches of the bindings that refer to Secrets, one for each of referringResources, in
// their order. Only the resource Secrets needs these caches.
func (c *Client) watchReferrers(client dynamic.Interface) error {
	for _, r := range referringResources {
		informer := kube.ObjectInformer(client, kube.Watched{
			Resource:  kinds[r].resource,
			Namespace: c.opts.Namespace,
			Indexers:  cache.Indexers{bySecret: secretIndex},
		})
		if err := informer.SetTransform(c.stripReferrer); err != nil {
			return fmt.Errorf("gardener: %w", err)
		}
		if err := informer.SetWatchErrorHandlerWithContext(c.watchFailed); err != nil {
			return fmt.Errorf("gardener: %w", err)
		}
		c.referrers = append(c.referrers, informer)
	}
	return nil
}

// referringResources are the resources that can refer to a Secret, first the one that Shoots should
// name.
var referringResources = []Resource{CredentialsBindings, SecretBindings}

// referrer is a binding that may refer to a Secret, as the cache keeps it.
type referrer struct {
	metav1.ObjectMeta
	secret string // "" if it refers to no Secret of the namespace, or is being deleted
}

func secretIndex(obj any) ([]string, error) {
	if r, ok := obj.(*referrer); ok && r.secret != "" {
		return []string{r.secret}, nil
	}
	return nil, nil
}

// stripReferrer is the transform of the referrers' caches. It keeps only identity, resourceVersion and
// Secret of a binding.
func (c *Client) stripReferrer(obj any) (any, error) {
	o, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil
	}
	var read referring
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &read); err != nil {
		return nil, fmt.Errorf("gardener: %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	kept := &referrer{secret: c.opts.secretOf(&read.references)}
	kept.Name, kept.Namespace = o.GetName(), o.GetNamespace()
	kept.UID, kept.ResourceVersion = o.GetUID(), o.GetResourceVersion()
	if o.GetDeletionTimestamp() != nil {
		kept.secret = "" // a Shoot should name another one, if there is one
	}
	return kept, nil
}

// secretOf returns the name of the Secret that a binding refers to, "" if that is no Secret or is in another namespace
// than o.Namespace.
func (o *Options) secretOf(r *references) string {
	to := r.credentials()
	if (to.Kind == "" || to.Kind == "Secret") && (to.Namespace == "" || to.Namespace == o.Namespace) {
		return to.Name
	}
	return ""
}

// Referrer returns the object that a Shoot has to name in order to use the binding: the binding
// itself, and for a Secret the CredentialsBinding or else the SecretBinding that refers to it, the
// first by name. One that is being deleted does not count, as Gardener refuses a Shoot that names it. It asks the
// server only if the cache has none or has not synced. Errors: engine.CodeUnknownBinding if nothing refers to the
// Secret, engine.ErrUnavailable.
func (c *Client) Referrer(ctx context.Context, binding string) (kind, name string, err error) {
	if c.opts.Resource != Secrets {
		return c.kind.name, binding, nil
	}
	if kind, name, err = c.cachedReferrer(binding); name != "" || err != nil {
		return kind, name, err
	}
	first := map[string]string{} // by kind
	err = c.eachReferring(ctx, func(kind string, o *referring) {
		if c.opts.secretOf(&o.references) == binding && o.Metadata.DeletionTimestamp == nil && (first[kind] == "" || o.Metadata.Name < first[kind]) {
			first[kind] = o.Metadata.Name
		}
	})
	if err != nil {
		return "", "", err
	}
	for _, r := range referringResources {
		if kind := kinds[r].name; first[kind] != "" {
			return kind, first[kind], nil
		}
	}
	return "", "", &engine.Error{
		Code: engine.CodeUnknownBinding,
		Op:   "gardener: " + c.op("find what refers to", binding),
		Err:  errors.New("no CredentialsBinding or SecretBinding refers to it"),
		Hint: "create one, a Shoot cannot name a Secret",
	}
}

// cachedReferrer returns the referrer in the caches, "" if there is none. Until all caches have synced
// it returns "", because the one that should be named may be missing.
func (c *Client) cachedReferrer(secret string) (kind, name string, err error) {
	for _, informer := range c.referrers {
		if !informer.HasSynced() {
			return "", "", nil
		}
	}
	for i, informer := range c.referrers {
		found, err := informer.GetIndexer().ByIndex(bySecret, secret)
		if err != nil {
			return "", "", fmt.Errorf("gardener: %w", err)
		}
		for _, obj := range found {
			if r, ok := obj.(*referrer); ok && (name == "" || r.Name < name) {
				name = r.Name
			}
		}
		if name != "" {
			return kinds[referringResources[i]].name, name, nil
		}
	}
	return "", "", nil
}

// Referred returns a function that reports whether Shoots can refer to a binding. They can refer to every binding,
// but to a Secret only if a CredentialsBinding or SecretBinding refers to it, also one that is being deleted.
// Referred reads these from the server. Error: engine.ErrUnavailable.
func (c *Client) Referred(ctx context.Context) (func(binding string) bool, error) {
	if c.opts.Resource != Secrets {
		return func(string) bool { return true }, nil
	}
	secrets, err := c.secretsOfBindings(ctx)
	if err != nil {
		return nil, err
	}
	return referredIn(secrets), nil
}

func referredIn(secrets map[reference]string) func(string) bool {
	used := make(map[string]bool, len(secrets))
	for _, secret := range secrets {
		used[secret] = true
	}
	return func(binding string) bool { return used[binding] }
}

// secretsOfBindings returns the Secrets of the namespace by the bindings that refer to them. If the
// server lacks one of the kinds, it returns an error: otherwise an account in use would look unused.
func (c *Client) secretsOfBindings(ctx context.Context) (map[reference]string, error) {
	secrets := map[reference]string{}
	err := c.eachReferring(ctx, func(kind string, o *referring) {
		if secret := c.opts.secretOf(&o.references); secret != "" {
			secrets[reference{kind, o.Metadata.Name}] = secret
		}
	})
	return secrets, err
}

// eachReferring reads all bindings that may refer to a Secret from the server. It may visit one twice.
func (c *Client) eachReferring(ctx context.Context, visit func(kind string, o *referring)) error {
	for _, r := range referringResources {
		k := kinds[r]
		err := list(ctx, c, listing{resource: k.resource, accept: wholeObjects}, func() {}, func(o referring) bool {
			visit(k.name, &o)
			return true
		})
		if err != nil {
			return err
		}
	}
	return nil
}
