package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/integration/stack"
)

// ackWait is the time after which the events of a killed worker are redelivered. The default, 30 s, is too
// long for an audience.
const ackWait = 2 * time.Second

// settings returns a configuration with the example policy, and with short times of the workers.
func settings() ([]byte, error) {
	root, err := stack.Root()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(root, "deploy", "policy")
	return fmt.Appendf(nil, `policy: {file: %q, catalog: %q, typeInstances: %q}
worker: {budget: 1s, ackWait: %s}
`, filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "catalog"), filepath.Join(dir, "typeinstances.yaml"), ackWait), nil
}

// implementation asks the example policy which implementation of an interface to use.
func (d *demo) implementation() error {
	ctx, cancel := context.WithTimeout(d.ctx, oneAnswer)
	defer cancel()
	const database = "cap.interface.database.postgresql.install"
	r, err := d.client.Resolve(ctx, "resolve-1", events.Resolve{RuntimeID: "rt-resolve-1", Interface: events.Interface{Path: database}})
	if err != nil {
		return err
	}
	fmt.Fprintf(d.out, "  The policy chooses what serves an interface, here a PostgreSQL database:\n  %s:%s\n", r.Implementation.Path, r.Implementation.Revision)
	return nil
}
