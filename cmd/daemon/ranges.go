package daemon

import (
	"context"
	"errors"
	"fmt"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/worker/loop"
	"github.com/hap-worker/hap-worker/worker/telemetry"
)

// observeRanges provides the gauges of the network ranges until ctx ends. It also requests a rebuild if the ranges are
// not built: after an operator has discarded them, there may be no request that would notice it.
func (d *daemon) observeRanges(ctx context.Context) {
	loop.Run(ctx, loop.Options{Every: countsEvery, Start: loop.AtOnce}, func(ctx context.Context) error {
		rooms, err := d.parts.ranges.Room(ctx)
		if errors.Is(err, account.ErrNotBuilt) {
			d.parts.rebuild.Wanted("")
		}
		d.tel.Metrics.NetworkRoom(roomOf(d.networks.Config(), rooms))
		return err // after an error the gauges are absent
	})
}

// roomOf returns how much of a configuration's parents is free, and how many blocks are free for each of its
// injections. It returns the zero value without a configuration or without rooms.
func roomOf(config *network.Config, rooms map[string]network.Room) telemetry.NetworkRoom {
	var out telemetry.NetworkRoom
	if config == nil || rooms == nil {
		return out
	}
	var all []string
	for _, p := range config.Parents {
		all = append(all, p.ID)
		if room, known := rooms[p.ID]; known {
			free := room.Addresses()
			out.Parents = append(out.Parents, telemetry.ParentRoom{Parent: p.ID, Free: free, Used: max(0, p.Addresses()-free)})
		}
	}
	for _, rule := range config.Rules {
		local := map[string]bool{}
		for n, in := range rule.Injections {
			parents := in.Parents
			if len(parents) == 0 {
				parents = all
			}
			left, inside := int64(0), false
			for _, id := range parents {
				room := rooms[id]
				left, inside = left+room.Blocks(in.Size), inside || local[id]
			}
			if in.ID != "" {
				local[in.ID] = true
			}
			if inside {
				continue // its block is cut from another new block of the same cluster
			}
			name := in.ID
			if name == "" {
				name = fmt.Sprint(n + 1)
			}
			out.Injections = append(out.Injections, telemetry.InjectionRoom{Rule: rule.ID, Injection: name, Blocks: left})
		}
	}
	return out
}
