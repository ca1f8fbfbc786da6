package gardener

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/hap-worker/hap-worker/engine"
)

// errNoNamespace says that the cluster does not have the namespace, which may be created later.
var errNoNamespace = errors.New("the cluster has no such namespace")

// Landscape returns the landscape of the bindings, with the uid of their namespace. Without the right
// to get the namespace it leaves the uid out and warns an operator, once for each Client. Error:
// engine.ErrUnavailable, also while there is no such namespace.
func (c *Client) Landscape(ctx context.Context) (engine.Landscape, error) {
	l := engine.Landscape{Namespace: c.opts.Namespace, Resource: string(c.opts.Resource)}
	var o object
	err := c.read(ctx, "get namespace "+c.opts.Namespace, func(ctx context.Context) (err error) {
		o, err = c.getNamespace(ctx)
		return err
	})
	status := apierrors.APIStatus(nil)
	switch {
	case err == nil:
		l.Cluster = string(o.Metadata.UID)
		return l, nil
	case !errors.As(err, &status):
		return engine.Landscape{}, err
	case status.Status().Code == http.StatusNotFound:
		return engine.Landscape{}, fmt.Errorf("gardener: namespace %s: %w: %w", c.opts.Namespace, engine.ErrUnavailable, errNoNamespace)
	case status.Status().Code != http.StatusForbidden:
		return engine.Landscape{}, err
	}
	c.unnamed.Do(func() {
		c.opts.Warn(fmt.Sprintf("the uid of namespace %s may not be read, so clusters with a namespace of this name are not told apart; "+
			"give the right to get the namespace, as the chart's Role of the bindings does: %v", c.opts.Namespace, err))
	})
	return l, nil
}

func (c *Client) getNamespace(ctx context.Context) (object, error) {
	ctx, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	var o object
	return o, decode(c.api.Get().MaxRetries(0).AbsPath("api", "v1", "namespaces", c.opts.Namespace).
		SetHeader("Accept", metadataOnly).Do(ctx), &o)
}

// Server returns the scheme and host of the API server, without secrets.
func (c *Client) Server() string {
	u := c.api.Get().AbsPath("/").URL()
	return u.Scheme + "://" + u.Host
}
