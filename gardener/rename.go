package gardener

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Renamed is a label whose key changes; its value stays.
type Renamed struct {
	From  string `json:"from"`
	To    string `json:"to"`
	Value string `json:"value"`
}

// Renaming is the change of a binding's label keys. Labels is empty if no label of the binding needs another key.
type Renaming struct {
	Binding string
	Labels  []Renamed
	// Conflict says why the binding cannot be renamed: it has both keys of a label, with different
	// values. "" if it can.
	Conflict string

	version string
}

// Renamings returns for each binding the change from the Client's label keys to those of the map to, which
// has the form of Options.Labels. It finds bindings by either key of the hyperscaler type, so that bindings
// that are already renamed are included. Errors: all faults of to, a new key that is now the key of another
// label, or engine.ErrUnavailable.
func (c *Client) Renamings(ctx context.Context, to map[string]string) ([]Renaming, error) {
	target, err := labelKeys(to)
	if err != nil {
		return nil, err
	}
	before, after := c.decoder.keys.list(), target.list()
	for i, key := range after {
		if at := slices.Index(before, key); at >= 0 && at != i {
			return nil, fmt.Errorf("%q is to be the key of %s and is that of %s now: rename that one to a third key first", key, keyNames[i], keyNames[at])
		}
	}
	found := map[string]Renaming{}
	for _, selector := range []string{before[0], after[0]} {
		of := listing{resource: c.kind.resource, accept: metadataOnlyList, selector: selector}
		err := list(ctx, c, of, func() {}, func(o object) bool {
			found[o.Metadata.Name] = renaming(&o, before, after)
			return true
		})
		if err != nil {
			return nil, err
		}
	}
	all := make([]Renaming, 0, len(found))
	for _, r := range found {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b Renaming) int { return strings.Compare(a.Binding, b.Binding) })
	return all, nil
}

func renaming(o *object, before, after []string) Renaming {
	r := Renaming{Binding: o.Metadata.Name, version: o.Metadata.ResourceVersion}
	for i, from := range before {
		value, there := o.Metadata.Labels[from]
		if !there || from == after[i] {
			continue
		}
		if other, both := o.Metadata.Labels[after[i]]; both && other != value {
			r.Conflict = fmt.Sprintf("it has %s=%s and %s=%s", from, value, after[i], other)
		}
		r.Labels = append(r.Labels, Renamed{From: from, To: after[i], Value: value})
	}
	return r
}

// Rename writes all labels of a renaming in one patch, if the binding has not changed since. Errors: a
// Conflict of r, otherwise as for Claim.
func (c *Client) Rename(ctx context.Context, r Renaming) error {
	op := c.op("rename the labels of", r.Binding)
	switch {
	case r.version == "":
		return fmt.Errorf("gardener: %s: %w", op, errNoVersion)
	case r.Conflict != "":
		return fmt.Errorf("gardener: %s: %w", op, errors.New(r.Conflict))
	}
	labels := fields{}
	for _, l := range r.Labels {
		labels[l.From], labels[l.To] = nil, l.Value
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": r.version, "labels": labels}})
	if err != nil {
		return fmt.Errorf("gardener: %s: %w", op, err)
	}
	return c.write(ctx, op, func(ctx context.Context) error {
		_, err := c.patchObject(ctx, r.Binding, body)
		return err
	})
}

// keyNames are the documented names of keys, in the order of keys.list.
var keyNames = []string{"hyperscalerType", "tenantName", "dirty", "internal", "shared", "euAccess"}

func (k keys) list() []string {
	return []string{k.hyperscalerType, k.tenantName, k.dirty, k.internal, k.shared, k.euAccess}
}
