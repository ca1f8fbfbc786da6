package daemon

import (
	"context"

	"github.com/hap-worker/hap-worker/cmd/connect"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/worker/config"
	"github.com/hap-worker/hap-worker/worker/ranges"
)

// openClusterConfigs starts the writer of ClusterConfigs and of the annotations of Clusters, which runs until
// background ends. It does nothing if that is not configured.
func (d *daemon) openClusterConfigs(background context.Context) error {
	if !d.cfg.Network.ClusterConfigs {
		return nil
	}
	p := &d.parts
	configs := &ranges.ClusterConfigs{
		Ledger: p.ledger, Networks: d.networks.Config, Runtime: p.counters.Runtime, Observer: d.observer(), Missed: p.extend.Wanted,
		Follower: p.extend.Follower,
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

// followClusters starts to follow Clusters until background ends. It does nothing if that is not configured.
func (d *daemon) followClusters(background context.Context) error {
	if d.cfg.Network.Clusters != config.FollowClusters {
		return nil
	}
	f := &ranges.Follower{Networks: d.networks.Config, Soon: d.parts.extend.Soon, SoonOf: d.parts.extend.SoonOf}
	watch, err := connect.ClusterWatch(d.cfg, f.Changed, func(text string) { d.log.Warn(text) })
	if err != nil {
		return err
	}
	f.Now, f.Synced, d.parts.extend.Follower = watch.Now, watch.Synced, f
	d.running.Go(func() {
		<-background.Done()
		watch.Stop()
	})
	return watch.Start(background)
}

// allotter returns the source of network blocks for the worker, nil without network ranges.
func (d *daemon) allotter() *ranges.Allotter {
	p := &d.parts
	if p.ranges == nil {
		return nil
	}
	a := &ranges.Allotter{
		Blocks: p.ranges, Networks: d.networks.Config, Late: p.extend, Rebuild: p.rebuild, Observer: d.observer(), Required: d.cfg.Network.Required,
		Follower: p.extend.Follower,
	}
	if p.extend.Configs != nil {
		a.Notes = p.extend.Configs
	}
	return a
}

// edited requests an update of a runtime whose ClusterConfig was deleted, or edited by another writer, if Redis has
// the runtime on an account or cannot be read. For other runtimes it does nothing: a worker removes their
// ClusterConfigs.
func (d *daemon) edited(ctx context.Context, configs *ranges.ClusterConfigs, runtime string) {
	_, rt, err := d.parts.counters.Runtime(ctx, runtime)
	if err != nil || rt.State == account.RuntimeAssigned {
		configs.Changed(runtime)
	}
}
