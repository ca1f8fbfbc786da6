package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/integration/stack"
)

// withPolicy is a configuration that has the example policy beside the defaults.
func withPolicy() ([]byte, error) {
	root, err := stack.Root()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(root, "deploy", "policy")
	return fmt.Appendf(nil, "policy: {file: %q, catalog: %q, typeInstances: %q}\n",
		filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "catalog"), filepath.Join(dir, "typeinstances.yaml")), nil
}

// implementations asks the example policy what serves an interface.
func (d demo) implementations() error {
	ctx, cancel := context.WithTimeout(d.ctx, oneAnswer)
	defer cancel()
	fmt.Fprintln(d.out, "\nThe policy chooses what serves an interface:")
	for i, path := range []string{"cap.interface.database.postgresql.install", "cap.interface.messaging.queue.install", "cap.interface.mainframe.install"} {
		r, err := d.client.Resolve(ctx, fmt.Sprintf("resolve-%d", i), events.Resolve{
			RuntimeID: fmt.Sprintf("rt-resolve-%d", i), Interface: events.Interface{Path: path},
		})
		var rejected *events.Rejected
		switch {
		case errors.As(err, &rejected):
			fmt.Fprintf(d.out, "  %s -> %s: %s\n", path, rejected.Reply.Error.Code, rejected.Reply.Error.Message)
		case err != nil:
			return err
		default:
			fmt.Fprintf(d.out, "  %s -> %s:%s, injected: %v\n", path, r.Implementation.Path, r.Implementation.Revision, r.Implementation.Inject)
		}
	}
	return nil
}
