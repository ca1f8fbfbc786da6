package daemon

import (
	"context"

	"github.com/hap-worker/hap-worker/cmd/connect"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/worker/ranges"
)

// openClusterConfigs begins to write network blocks beside the ledger too, until
// background ends, where that is configured.
func (d *daemon) openClusterConfigs(background context.Context) error {
	if !d.cfg.Network.ClusterConfigs {
		return nil
	}
	p := &d.parts
	configs := &ranges.ClusterConfigs{
		Ledger: p.ledger, Networks: &d.networks, Runtimes: p.counters, Observer: d.observer(), Missed: p.extend.Wanted,
	}
	client, err := connect.ClusterConfigs(d.cfg, func(runtime string) { d.edited(background, configs, runtime) },
		func(text string) { d.log.Warn(text) })
	if err != nil {
		return err
	}
	configs.Notes, p.rebuild.Notes, p.extend.Configs = client, client, configs
	d.running.Go(func() { configs.Run(background) })
	d.running.Go(func() {
		<-background.Done()
		client.Stop()
	})
	return client.Start(background)
}

// allotter returns the source of network blocks for the worker, nil without network ranges.
func (d *daemon) allotter() *ranges.Allotter {
	p := &d.parts
	if p.ranges == nil {
		return nil
	}
	a := &ranges.Allotter{
		Blocks: p.ranges, Networks: &d.networks, Late: p.extend, Rebuild: p.rebuild, Observer: d.observer(), Required: d.cfg.Network.Required,
	}
	if p.extend.Configs != nil {
		a.Notes = p.extend.Configs
	}
	return a
}

// edited asks for a runtime whose ClusterConfig is not as it was written. What goes
// with its runtime is nobody's edit.
func (d *daemon) edited(ctx context.Context, configs *ranges.ClusterConfigs, runtime string) {
	_, rt, err := d.parts.counters.Runtime(ctx, runtime)
	if err != nil || rt.State == account.RuntimeAssigned {
		configs.Changed(runtime)
	}
}
