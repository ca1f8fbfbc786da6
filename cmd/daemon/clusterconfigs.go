package daemon

import (
	"context"

	"github.com/hap-worker/hap-worker/cmd/connect"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/worker"
)

// openClusterConfigs begins to write network blocks beside the ledger too, until
// background ends, where that is configured.
func (d *daemon) openClusterConfigs(background context.Context) error {
	if !d.cfg.Network.ClusterConfigs {
		return nil
	}
	p := &d.parts
	configs := &worker.ClusterConfigs{
		Archive: p.ledger, Networks: &d.networks, Lodgings: p.counters, Listener: d.rangesListener(), Missed: p.extend.Wanted,
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

// rangesListener is the listener, with what is told of network ranges alone.
func (d *daemon) rangesListener() worker.Listener {
	l := d.listener()
	l.OnNoted, l.OnRefresh = d.noted, d.refreshed
	return l
}

// networkOptions are those of a worker that allots network ranges.
func (d *daemon) networkOptions(o *worker.Options) {
	p := &d.parts
	o.Ranges, o.Networks, o.Extend = p.ranges, &d.networks, p.extend
	if p.extend.Configs != nil {
		o.Notes = p.extend.Configs
	}
}

// edited asks for a runtime whose ClusterConfig is not as it was written. What goes
// with its runtime is nobody's edit.
func (d *daemon) edited(ctx context.Context, configs *worker.ClusterConfigs, runtime string) {
	_, rt, err := d.parts.counters.Runtime(ctx, runtime)
	if err != nil || rt.State == account.RuntimeAssigned {
		configs.Changed(runtime)
	}
}

func (d *daemon) noted(ctx context.Context, i worker.NotedInfo) {
	d.tel.Metrics.Noted(ctx, i.Written, i.Removed, len(i.Taken), i.Err != nil)
	switch {
	case i.Err != nil && i.Failed > 0:
		d.log.DebugContext(ctx, "ClusterConfigs are still not as the ledger has them", "clusterConfigs", i)
	case i.Err != nil:
		d.log.WarnContext(ctx, "ClusterConfigs are not as the ledger has them", "clusterConfigs", i)
	case len(i.Taken) > 0:
		d.log.WarnContext(ctx, "what stands where a ClusterConfig would be is another's, and stays", "clusterConfigs", i)
	default:
		d.log.InfoContext(ctx, "ClusterConfigs", "clusterConfigs", i)
	}
}

// refreshed tells what a comparison of the ranges found; each conflict is named.
func (d *daemon) refreshed(ctx context.Context, i worker.RefreshInfo) {
	d.tel.Metrics.NetworkConflicts(len(i.Conflicts))
	for n, conflict := range i.Conflicts {
		if n == mostConflicts {
			d.log.WarnContext(ctx, "there are more network blocks in conflict", "more", len(i.Conflicts)-n)
			break
		}
		d.log.WarnContext(ctx, "network blocks are in conflict: none of them is allotted again", "conflict", conflict)
	}
	d.log.InfoContext(ctx, "the network ranges are compared", "refresh", i)
}

// mostConflicts is how many conflicts are named one by one.
const mostConflicts = 100
