package daemon

import (
	"bytes"
	"context"
	"os"
	"sync"
	"sync/atomic"

	"github.com/hap-worker/hap-worker/cmd/connect"
	"github.com/hap-worker/hap-worker/counters/blocks"
	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/worker/filewatch"
	"github.com/hap-worker/hap-worker/worker/ranges"
	"github.com/hap-worker/hap-worker/worker/telemetry"
)

// networks holds the present network configuration.
type networks struct {
	current atomic.Pointer[network.Config]

	mu      sync.Mutex
	content []byte // source of current

	refused atomic.Bool // a configuration was refused since current was read
}

// Config returns the present configuration, nil if there is none.
func (n *networks) Config() *network.Config { return n.current.Load() }

// openNetwork opens the network ranges, reads the network configuration and follows its changes until
// background ends. It does nothing if the worker's configuration has no section network, or in a shadow.
func (d *daemon) openNetwork(ctx, background context.Context) error {
	c := d.cfg.Network
	if !d.cfg.Given("network") {
		return nil
	}
	if d.shadowed() {
		d.log.Warn("a shadow allots no network ranges, because the broker chooses none to compare them with")
		return nil
	}
	d.parts.ranges = blocks.New(d.parts.counters)
	d.parts.rebuild.Ranges, d.parts.rebuild.Networks = d.parts.ranges, d.networks.Config
	d.parts.extend = &ranges.Reconciler{
		Ranges: d.parts.ranges, Networks: d.networks.Config, Ledger: d.parts.ledger, Runtime: d.parts.counters.Runtime,
		Rebuild: d.parts.rebuild, Subjects: d.parts.subjects, Observer: d.observer(), Keeper: d.parts.ranges,
		Refused: max(d.cfg.NATS.Retention-d.settle(), 1), Now: d.streamTime,
		Room: func() {
			if w := d.parts.worker.Load(); w != nil {
				w.Wake()
			}
		},
	}
	if err := d.followClusters(background); err != nil {
		return err
	}
	if err := d.openClusterConfigs(background); err != nil {
		return err
	}
	d.running.Go(func() { d.observeRanges(background) })
	if c.File == "" {
		return d.watchIPAMConfig(ctx, background)
	}
	read := func() error {
		content, err := os.ReadFile(c.File)
		if err != nil {
			return err
		}
		return d.takeNetwork(background, content)
	}
	seen := filewatch.Sum(c.File)
	if err := read(); err != nil {
		return err
	}
	d.followFile(background, c.File, seen, func() {
		if err := read(); err != nil {
			d.networkRefused(background, c.File, err)
		}
	})
	return nil
}

// watchIPAMConfig reads and follows the IPAMConfig. A worker also starts if the IPAMConfig is missing,
// invalid or cannot be read, and allots no ranges until there is a valid one.
func (d *daemon) watchIPAMConfig(ctx, background context.Context) error {
	name := "IPAMConfig " + d.cfg.Network.Config
	watch, err := connect.IPAMConfig(d.cfg, func(content []byte, found bool) {
		if !found {
			// Allotted ranges stay. New clusters get none until there is a configuration again.
			d.networks.current.Store(nil)
			d.tel.Metrics.Removed(telemetry.NetworkConfig)
			d.log.Warn("the network configuration was removed: new clusters get no ranges", "source", name)
			return
		}
		if err := d.takeNetwork(background, content); err != nil {
			d.networkRefused(background, name, err)
		}
	}, func(text string) { d.log.Warn(text) })
	if err != nil {
		return err
	}
	d.parts.ipam = watch
	if err := watch.Start(background); err != nil {
		return err
	}
	return d.firstList(ctx, name, watch.WaitSynced)
}

func (d *daemon) networkRefused(ctx context.Context, source string, err error) {
	d.networks.refused.Store(true)
	d.log.Error("rejected the changed network configuration; the last valid one, if any, stays in use", "source", source, "error", err)
	d.tel.Metrics.Reload(ctx, telemetry.NetworkConfig, err)
}

// takeNetwork applies a network configuration to events that are handled from now on, to waiting requests and to
// existing clusters. If it is the present one, takeNetwork does nothing, unless another was refused since. If it is
// invalid, takeNetwork returns an error, and the present one stays.
func (d *daemon) takeNetwork(ctx context.Context, content []byte) error {
	d.networks.mu.Lock()
	defer d.networks.mu.Unlock()
	if bytes.Equal(content, d.networks.content) && d.networks.Config() != nil && !d.networks.refused.Load() {
		return nil
	}
	config, warnings, err := network.Parse(content)
	if err != nil {
		return err
	}
	for _, warning := range warnings {
		d.log.Warn("network configuration: " + warning.Error())
	}
	d.networks.content = content
	d.networks.refused.Store(false)
	d.networks.current.Store(config)
	d.log.Info("applied the network configuration", "parents", len(config.Parents), "rules", len(config.Rules))
	d.tel.Metrics.Reload(ctx, telemetry.NetworkConfig, nil)
	d.running.Go(func() { d.parts.extend.Configured(ctx) })
	return nil
}
