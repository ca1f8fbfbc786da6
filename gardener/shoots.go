package gardener

import (
	"context"
	"errors"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/gardener/verdict"
)

var shoots = schema.GroupVersionResource{Group: "core.gardener.cloud", Version: "v1beta1", Resource: "shoots"}

// Shoots reads all Shoots of the namespace from the server, including those that are being deleted,
// and then calls f with each. The list is consistent. Binding is of the Client's kind, "" if the Shoot
// refers to none. It returns the first error of f, or engine.ErrUnavailable.
func (c *Client) Shoots(ctx context.Context, f func(engine.Shoot) error) error {
	var found []engine.Shoot
	err := c.EachShoot(ctx, func() { found = found[:0] }, func(s engine.Shoot) { found = append(found, s) })
	if err != nil {
		return err
	}
	for _, s := range found {
		if err := f(s); err != nil {
			return err
		}
	}
	return nil
}

// Refers reports whether any Shoot refers to the binding, or to another binding of the cache with the same
// credentials, by a list of the Shoots that begins after the call. Concurrent callers share one list. If the
// error is not nil, false means nothing: a failure is never "no Shoot". Error: engine.ErrUnavailable.
func (c *Client) Refers(ctx context.Context, binding string) (bool, error) {
	found := false // stays false if the last attempt fails
	err := c.read(ctx, "list shoots", func(ctx context.Context) error {
		referred, err := c.referred.Get(ctx)
		found = slices.ContainsFunc(c.namesOf(binding), func(name string) bool {
			_, is := referred[name]
			return is
		})
		if judged := (*verdict.Error)(nil); errors.As(err, &judged) {
			return judged.Err
		}
		return err
	})
	return found, err
}

// readReferred reads the names of all bindings that Shoots refer to. It repeats a failed list only if a
// working server asks for a later repeat or has forgotten the rest of the list. It returns any other failure:
// Refers then repeats the list for each caller, and reports the failed attempt to the engine.WithAttempts of
// that caller.
func (c *Client) readReferred(ctx context.Context) (map[string]struct{}, error) {
	ctx = engine.WithAttempts(ctx, func(failed error) error { return failed })
	found := map[string]struct{}{}
	err := c.EachShoot(ctx, func() { clear(found) }, func(s engine.Shoot) { found[s.Binding] = struct{}{} })
	if err != nil {
		return nil, err
	}
	return found, nil
}

// shoot is the decoded part of a Shoot.
type shoot struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		CredentialsBindingName string `json:"credentialsBindingName"`
		SecretBindingName      string `json:"secretBindingName"`
	} `json:"spec"`
}

// EachShoot calls f with each Shoot while it reads them, for a caller that does not need them all in memory: otherwise
// like Shoots. It calls restart before the first call of f, and again if it begins anew because the server has forgotten
// the rest of the list: what f was called with before does not count then. After an error, nothing counts.
func (c *Client) EachShoot(ctx context.Context, restart func(), f func(engine.Shoot)) error {
	if c.opts.Resource == Secrets {
		return c.eachShootOfSecrets(ctx, restart, f)
	}
	return list(ctx, c, listing{resource: shoots, accept: wholeObjects}, restart, func(s shoot) bool {
		f(c.shoot(&s.Metadata, c.named(&s).name))
		return true
	})
}

// eachShootOfSecrets reads the Shoots first, and then which Secrets the bindings refer to. In the
// other order, a binding and a Shoot that are created in between would leave an account in use looking
// unused.
func (c *Client) eachShootOfSecrets(ctx context.Context, restart func(), f func(engine.Shoot)) error {
	type found struct {
		engine.Shoot
		names reference
	}
	var read []found
	err := list(ctx, c, listing{resource: shoots, accept: wholeObjects}, func() { read = read[:0] }, func(s shoot) bool {
		read = append(read, found{c.shoot(&s.Metadata, ""), c.named(&s)})
		return true
	})
	if err != nil {
		return err
	}
	secrets, err := c.secretsOfBindings(ctx)
	if err != nil {
		return err
	}
	restart()
	for _, s := range read {
		s.Binding = secrets[s.names]
		f(s.Shoot)
	}
	return nil
}

func (c *Client) shoot(meta *metav1.ObjectMeta, binding string) engine.Shoot {
	return c.opts.shoot(meta, binding)
}

// shoot reads the annotations and labels of a Shoot.
func (o *Options) shoot(meta *metav1.ObjectMeta, binding string) engine.Shoot {
	return engine.Shoot{
		Name: meta.Name, Binding: binding,
		RuntimeID: first(marked(meta, o.ShootRuntimeID), meta.Name), Tenant: marked(meta, o.ShootTenant),
	}
}

// named returns the binding that a Shoot names. If the accounts are bindings, and the Shoot names only one of the
// other kind, that counts for the account of the same name: landscapes that move from SecretBindings to
// CredentialsBindings keep the names, and a used account must not look unused.
func (c *Client) named(s *shoot) reference { return c.opts.named(s) }

func (o *Options) named(s *shoot) reference {
	credentials := reference{kinds[CredentialsBindings].name, s.Spec.CredentialsBindingName}
	secret := reference{kinds[SecretBindings].name, s.Spec.SecretBindingName}
	if credentials.name == "" || o.Resource == SecretBindings && secret.name != "" {
		return secret
	}
	return credentials
}

// marked returns the value of the first key that has one, as annotation or else as label of the object, "" if no
// key has one.
func marked(meta *metav1.ObjectMeta, keys []string) string {
	for _, key := range keys {
		if value := first(meta.Annotations[key], meta.Labels[key]); value != "" {
			return value
		}
	}
	return ""
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
