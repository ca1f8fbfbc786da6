package gardener

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/hap-worker/hap-worker/engine"
)

// Get reads one binding from the server. SameSecretAs comes from a comparison with the bindings of the cache.
// Errors: engine.CodeUnknownBinding, engine.ErrUnavailable.
func (c *Client) Get(ctx context.Context, name string) (engine.Binding, error) {
	var o object
	err := c.read(ctx, c.op("get", name), func(ctx context.Context) (err error) {
		o, err = c.getObject(ctx, name)
		return err
	})
	if err != nil {
		return engine.Binding{}, err
	}
	b := c.decoder.binding(&o.Metadata)
	b.SameSecretAs = c.sameAsCached(b)
	return b, nil
}

// Claim writes the mark on the binding: label tenantName, and the annotations of pool, generation and
// epoch. It returns the binding after the write. Errors: engine.ErrConflict, engine.ErrUnknownResult,
// engine.ErrUnavailable (with engine.ErrRefused if the server rejects a write on this binding),
// engine.CodeUnknownBinding.
//
// The caller decides whether the claim is permitted. Claim only makes sure that seen is the server's
// present state.
func (c *Client) Claim(ctx context.Context, seen engine.Binding, mark engine.Mark) (engine.Binding, error) {
	return c.patch(ctx, "claim", seen, change{
		labels: fields{c.decoder.keys.tenantName: mark.Tenant},
		annotations: fields{
			AnnotationGeneration: strconv.FormatInt(mark.Generation, 10),
			AnnotationEpoch:      mark.Epoch,
			AnnotationPool:       claimOf(seen.Pool(), mark.Tenant),
		},
	})
}

// MarkDirty writes dirty=true with the tenant and generation of the mark, if seen is the server's
// present state. The epoch stays unchanged. Errors as for Claim.
func (c *Client) MarkDirty(ctx context.Context, seen engine.Binding, mark engine.Mark) (engine.Binding, error) {
	return c.patch(ctx, "mark dirty", seen, change{
		labels:      fields{c.decoder.keys.dirty: "true", c.decoder.keys.tenantName: mark.Tenant},
		annotations: fields{AnnotationGeneration: strconv.FormatInt(mark.Generation, 10)},
	})
}

// Unclaim removes tenantName and the pool of the claim, and writes the generation of the mark, if seen is
// the server's present state. The next claim has the generation after it. It is for claims with which no
// request was answered. Errors as for Claim.
func (c *Client) Unclaim(ctx context.Context, seen engine.Binding, mark engine.Mark) (engine.Binding, error) {
	return c.patch(ctx, "unclaim", seen, change{
		labels:      fields{c.decoder.keys.tenantName: nil},
		annotations: fields{AnnotationGeneration: strconv.FormatInt(mark.Generation, 10), AnnotationPool: nil},
	})
}

// Free removes tenantName, dirty and the pool of the claim, and records the id of the request to release the
// binding, in one write, if seen is the server's present state. The generation stays, and the next claim has
// the generation after it. Errors as for Claim.
func (c *Client) Free(ctx context.Context, seen engine.Binding, request string) (engine.Binding, error) {
	return c.patch(ctx, "free", seen, change{
		labels:      fields{c.decoder.keys.dirty: nil, c.decoder.keys.tenantName: nil},
		annotations: fields{AnnotationReleasedBy: request, AnnotationPool: nil},
	})
}

// List reads all bindings from the server and then calls f with each, in order of names. The list is
// consistent. It returns the first error of f, or engine.ErrUnavailable.
func (c *Client) List(ctx context.Context, f func(engine.Binding) error) error {
	return c.list(ctx, c.decoder.keys.hyperscalerType, f)
}

// Find is Get for a client without a cache: SameSecretAs comes from a comparison with the bindings of the same
// hyperscaler type on the server, of all pools. One account has several types at most by mistake, and to read all
// bindings takes several times as long.
func (c *Client) Find(ctx context.Context, name string) (engine.Binding, error) {
	found, err := c.Get(ctx, name)
	if err != nil || c.opts.Resource == Secrets { // a Secret is one account
		return found, err
	}
	return found, c.list(ctx, c.decoder.keys.hyperscalerType+"="+found.HyperscalerType, func(b engine.Binding) error {
		if b.Name == name {
			found = b
		}
		return nil
	})
}

func (c *Client) list(ctx context.Context, selector string, f func(engine.Binding) error) error {
	var found []*account
	of := listing{resource: c.kind.resource, accept: wholeObjects, selector: selector}
	if c.opts.Resource == Secrets {
		of.accept = metadataOnlyList
	}
	err := list(ctx, c, of, func() { found = found[:0] }, func(o object) bool {
		found = append(found, c.decoder.listed(&o))
		return true
	})
	if err != nil {
		return err
	}
	markSame(found)
	for _, b := range found {
		if err := f(b.Binding); err != nil {
			return err
		}
	}
	return nil
}

// fields are the fields of a merge patch by name; the value nil removes a field.
type fields map[string]any

// change says what a write does to the metadata of a binding.
type change struct{ labels, annotations fields }

// errNoVersion is a mistake of the caller: without a version the server would accept the write in any
// state of the object.
var errNoVersion = errors.New("the binding that was seen has no resourceVersion")

func (c *Client) patch(ctx context.Context, verb string, seen engine.Binding, do change) (engine.Binding, error) {
	op := c.op(verb, seen.Name)
	if seen.ResourceVersion == "" {
		return engine.Binding{}, fmt.Errorf("gardener: %s: %w", op, errNoVersion)
	}
	metadata := map[string]any{"resourceVersion": seen.ResourceVersion}
	for key, changed := range map[string]fields{"labels": do.labels, "annotations": do.annotations} {
		if len(changed) > 0 { // a null would remove all that others wrote, too
			metadata[key] = changed
		}
	}
	body, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return engine.Binding{}, fmt.Errorf("gardener: %s: %w", op, err)
	}
	var o object
	err = c.write(ctx, op, func(ctx context.Context) (err error) {
		o, err = c.patchObject(ctx, seen.Name, body)
		return err
	})
	if err != nil {
		return engine.Binding{}, err
	}
	return c.decoder.binding(&o.Metadata), nil
}

func (c *Client) op(verb, name string) string {
	return fmt.Sprintf("%s %s %s/%s", verb, c.kind.name, c.opts.Namespace, name)
}
