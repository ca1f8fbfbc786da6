package memory_test

import (
	"testing"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account/accounttest"
	"github.com/hap-worker/hap-worker/engine/network/networktest"
	"github.com/hap-worker/hap-worker/worker/memory"
)

func TestScenarios(t *testing.T) {
	t.Parallel()
	for _, story := range accounttest.Stories() {
		t.Run(story, func(t *testing.T) {
			t.Parallel()
			accounttest.Tell(t, story, accounttest.Model{Counters: memory.NewCounters()})
		})
	}
}

func TestReaders(t *testing.T) {
	t.Parallel()
	accounttest.Read(t, accounttest.Model{Counters: memory.NewCounters()})
}

func TestRanges(t *testing.T) {
	t.Parallel()
	networktest.Rebuilds(t, memory.NewRanges())
	networktest.Histories(t, func() networktest.Allocator { return memory.NewRanges() })
}

func TestLandscapeOfCounters(t *testing.T) {
	t.Parallel()
	c, ctx := memory.NewCounters(), t.Context()
	one := engine.Landscape{Cluster: "uid-1", Namespace: "garden-kyma", Resource: "credentialsbindings"}
	other := engine.Landscape{Cluster: "uid-2", Namespace: "garden-kyma", Resource: "credentialsbindings"}
	if _, found, err := c.Landscape(ctx); found || err != nil {
		t.Fatal(found, err)
	}
	for _, want := range []engine.Landscape{one, other} { // the first claim stands
		if have, err := c.ClaimLandscape(ctx, want); have != one || err != nil {
			t.Errorf("claimed is %v, %v", have, err)
		}
	}
	if err := c.AdoptLandscape(ctx, other); err != nil {
		t.Error(err)
	}
	if l, found, err := c.Landscape(ctx); l != other || !found || err != nil {
		t.Errorf("adopted is %v, %t, %v", l, found, err)
	}
	if err := c.Lose(ctx); err != nil {
		t.Error(err)
	}
	if _, found, err := c.Landscape(ctx); found || err != nil {
		t.Error(found, err)
	}
}
