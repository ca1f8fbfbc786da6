package gardener

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/hap-worker/hap-worker/engine"
)

// Bindings that refer to the same Secret are one account under several names. One of them, the holder,
// stands for the account; the others are held back. Otherwise two tenants could get the account under
// two names, each with its own count and limit.

// byCredentials is the name of the index of the bindings' cache by credentials.
const byCredentials = "credentials"

func credentialsIndex(obj any) ([]string, error) {
	if a, ok := obj.(*account); ok && a.credentials != "" {
		return []string{a.credentials}, nil
	}
	return nil, nil
}

// named returns kind, namespace and name of the target in one text, "" if it has no name. namespace is
// the default.
func (t target) named(namespace string) string {
	if t.Name == "" {
		return ""
	}
	return cmp.Or(t.Kind, "Secret") + " " + cmp.Or(t.Namespace, namespace) + "/" + t.Name
}

// holder returns the binding that stands for an account: one that is dirty, since the account is being emptied,
// then one that has a tenant, then the oldest, then the first by name. It returns nil if all are shared, because
// shared bindings do not separate tenants.
func holder(same []*account) *account {
	if !slices.ContainsFunc(same, func(a *account) bool { return !a.Shared }) {
		return nil
	}
	rank := func(a *account) int {
		switch {
		case a.Dirty:
			return 0
		case a.Tenant != "":
			return 1
		default:
			return 2
		}
	}
	return slices.MinFunc(same, func(a, b *account) int {
		return cmp.Or(rank(a)-rank(b), cmp.Compare(a.created, b.created), strings.Compare(a.Name, b.Name))
	})
}

// sameAs returns the SameSecretAs of a: the holder's name, "" if a is the holder or there is no holder (all bindings
// are shared). same are the bindings with a's Secret.
func sameAs(a *account, same []*account) string {
	if h := holder(same); h != nil && h.Name != a.Name {
		return h.Name
	}
	return ""
}

// sameSecret returns the bindings of the cache with these credentials, none for "".
func (c *Client) sameSecret(credentials string) []*account {
	if credentials == "" {
		return nil
	}
	found, err := c.informer.GetIndexer().ByIndex(byCredentials, credentials)
	if err != nil {
		return nil // Secrets have no such index
	}
	same := make([]*account, 0, len(found))
	for _, obj := range found {
		if a, ok := obj.(*account); ok {
			same = append(same, a)
		}
	}
	return same
}

// sameSecretAs returns the bindings of the cache with the credentials of the named one, which is among them; none if
// the cache does not have it or its credentials.
func (c *Client) sameSecretAs(binding string) []*account {
	obj, _, err := c.informer.GetIndexer().GetByKey(c.opts.Namespace + "/" + binding)
	if a, known := obj.(*account); known && err == nil {
		return c.sameSecret(a.credentials)
	}
	return nil
}

// sameAsCached returns the SameSecretAs of a binding of which only the metadata was read from the server. It takes
// the binding's credentials, and the other bindings with them, from the cache.
func (c *Client) sameAsCached(b engine.Binding) string {
	same := c.sameSecretAs(b.Name)
	for i, a := range same {
		if a.Name == b.Name {
			read := &account{b, a.credentials, a.created}
			same[i] = read
			return sameAs(read, same)
		}
	}
	return ""
}

// namesOf returns the binding's name and those of the other bindings with its credentials.
func (c *Client) namesOf(binding string) []string {
	names := []string{binding}
	for _, same := range c.sameSecretAs(binding) {
		names = append(names, same.Name)
	}
	return names
}

// regroup updates SameSecretAs of the bindings with these credentials.
func (c *Client) regroup(credentials string) {
	same := c.sameSecret(credentials)
	for _, a := range same {
		b, known := c.index.Cached(a.Name)
		if as := sameAs(a, same); known && b.SameSecretAs != as {
			b.SameSecretAs = as
			c.take(&b)
		}
	}
}

// take puts a binding into the index and notifies the handlers. A binding that has changed its pool, or that was
// deleted and created again since the cache last looked, is first reported as deleted. take warns of a binding that
// has become a duplicate of another one.
func (c *Client) take(b *engine.Binding) {
	known, ok := c.index.Cached(b.Name)
	c.index.Set(b)
	if b.SameSecretAs != "" && b.SameSecretAs != known.SameSecretAs {
		c.opts.Warn(fmt.Sprintf("%s %s/%s refers to the same credentials as %s and gains no clusters: docs/gardener.md#two-bindings-with-one-secret",
			b.Kind, b.Namespace, b.Name, b.SameSecretAs))
	}
	if ok && (known.Pool() != b.Pool() || known.UID != b.UID) {
		c.notify(known, true)
	}
	c.notify(*b, false)
}

// markSame sets SameSecretAs of bindings that were listed together.
func markSame(all []*account) {
	same := map[string][]*account{}
	for _, a := range all {
		if a.credentials != "" {
			same[a.credentials] = append(same[a.credentials], a)
		}
	}
	for _, a := range all {
		if several := same[a.credentials]; len(several) > 1 {
			a.SameSecretAs = sameAs(a, several)
		}
	}
}
