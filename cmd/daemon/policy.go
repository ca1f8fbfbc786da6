package daemon

import (
	"context"
	"os"

	"github.com/hap-worker/hap-worker/cmd/connect"
	"github.com/hap-worker/hap-worker/engine/policy"
	"github.com/hap-worker/hap-worker/worker/filewatch"
	"github.com/hap-worker/hap-worker/worker/telemetry"
)

// openPolicy reads the catalog, the TypeInstances and the policy, and follows their changes until
// background ends. It does nothing if no catalog is configured.
func (d *daemon) openPolicy(ctx, background context.Context) error {
	c := d.cfg.Policy
	if c.Catalog == "" {
		return nil
	}
	for _, from := range []struct {
		what telemetry.Configured
		file string
		read func() error
	}{
		{telemetry.PolicyCatalog, c.Catalog, d.readCatalog},
		{telemetry.PolicyInstances, c.TypeInstances, d.readTypeInstances},
		{telemetry.PolicyConfig, c.File, d.readPolicyFile},
	} {
		if from.file == "" {
			continue
		}
		seen := filewatch.Sum(from.file)
		if err := from.read(); err != nil {
			return err
		}
		d.followFile(background, from.file, seen, func() { d.reloaded(background, from.what, from.file, from.read()) })
	}
	if c.File == "" {
		if err := d.watchPolicy(ctx, background); err != nil {
			return err
		}
	}
	d.running.Go(func() { d.tellPolicy(background) })
	return nil
}

// watchPolicy follows the ConfigMap. A worker also starts if the policy is missing, invalid or
// cannot be read. Requests for an interface then wait, and all others are served.
func (d *daemon) watchPolicy(ctx, background context.Context) error {
	name := "ConfigMap " + d.cfg.Policy.ConfigMap
	d.policies.Expect(name)
	watch, err := connect.PolicyConfig(d.cfg, func(content string, found bool) {
		if !found {
			d.policies.DropPolicy()
			d.tel.Metrics.Removed(telemetry.PolicyConfig)
			d.changedPolicy()
			d.log.Warn("the policy was removed: requests for an interface wait for a new one", "configMap", d.cfg.Policy.ConfigMap)
			return
		}
		d.reloaded(background, telemetry.PolicyConfig, name, d.policies.TakePolicy([]byte(content)), "digest", policy.Digest([]byte(content)))
	}, func(text string) { d.log.Warn(text) })
	if err != nil {
		return err
	}
	d.parts.policy = watch
	if err := watch.Start(background); err != nil {
		return err
	}
	return d.firstList(ctx, name, watch.WaitSynced)
}

// reloaded reports that a part of the policy was reloaded from source, or why it was rejected. After a
// rejection, the last valid version, if any, stays in use. more has further attributes for the log.
func (d *daemon) reloaded(ctx context.Context, what telemetry.Configured, source string, err error, more ...any) {
	defer d.tel.Metrics.Reload(ctx, what, err)
	if err != nil {
		d.log.Error("rejected the policy, catalog or TypeInstances; the last valid version, if any, stays in use", append(more, "source", source, "error", err)...)
		return
	}
	d.changedPolicy()
	d.log.Info("applied the policy, catalog or TypeInstances", append(more, "source", source)...)
}

func (d *daemon) readCatalog() error {
	catalog, err := connect.Catalog(d.cfg.Policy.Catalog)
	if err == nil {
		d.policies.TakeCatalog(catalog)
	}
	return err
}

func (d *daemon) readTypeInstances() error {
	content, err := os.ReadFile(d.cfg.Policy.TypeInstances)
	if err != nil {
		return err
	}
	all, err := policy.ParseTypeInstances(content)
	if err == nil {
		for i := range all {
			all[i].Value = nil // a worker does not need the value, which may be a credential
		}
		d.policies.TakeTypeInstances(all)
	}
	return connect.InFile(err, d.cfg.Policy.TypeInstances)
}

func (d *daemon) readPolicyFile() error {
	content, err := os.ReadFile(d.cfg.Policy.File)
	if err != nil {
		return err
	}
	return connect.InFile(d.policies.TakePolicy(content), d.cfg.Policy.File)
}
