package engine_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/hap-worker/hap-worker/engine"
)

func TestLandscapesAreCompared(t *testing.T) {
	t.Parallel()
	kyma := engine.Landscape{Cluster: "uid-1", Namespace: "garden-kyma", Resource: "credentialsbindings"}
	change := func(f func(*engine.Landscape)) engine.Landscape {
		other := kyma
		f(&other)
		return other
	}
	for name, c := range map[string]struct {
		other engine.Landscape
		same  bool
	}{
		"itself":                     {kyma, true},
		"the cluster is not known":   {change(func(l *engine.Landscape) { l.Cluster = "" }), true},
		"the resource is not known":  {change(func(l *engine.Landscape) { l.Resource = "" }), true},
		"another namespace":          {change(func(l *engine.Landscape) { l.Namespace = "default" }), false},
		"another resource":           {change(func(l *engine.Landscape) { l.Resource = "secrets" }), false},
		"the namespace was made new": {change(func(l *engine.Landscape) { l.Cluster = "uid-2" }), false},
		"a shadow's":                 {change(func(l *engine.Landscape) { l.Shadow = true }), false},
	} {
		if kyma.Same(c.other) != c.same || c.other.Same(kyma) != c.same {
			t.Errorf("%s: same is not %t", name, c.same)
		}
	}
}

func TestLandscapeRecord(t *testing.T) {
	t.Parallel()
	kyma := engine.Landscape{Cluster: "uid-1", Namespace: "garden-kyma", Resource: "credentialsbindings"}
	if got, err := engine.ParseLandscape(kyma.Text()); err != nil || got != kyma {
		t.Errorf("%+v, %v", got, err)
	}
	newer := `{"namespace":"garden-kyma","resource":"credentialsbindings","cluster":"uid-1","region":{"of":"a newer version"}}`
	if got, err := engine.ParseLandscape(newer); err != nil || got != kyma {
		t.Errorf("of a newer version: %+v, %v", got, err)
	}
	for name, junk := range map[string]string{
		"no JSON":      "garden-kyma",
		"nothing":      "",
		"no namespace": `{"resource":"secrets"}`,
		"another type": `{"namespace":7,"resource":"secrets"}`,
		"huge":         `{"namespace":"` + strings.Repeat("a", 1<<20) + `","resource":"secrets"}`,
		"a huge field": `{"namespace":"` + strings.Repeat("a", 300) + `","resource":"secrets"}`,
	} {
		if got, err := engine.ParseLandscape(junk); err == nil {
			t.Errorf("%s is taken: %+v", name, got)
		}
	}
	if text := (engine.Landscape{Namespace: "a\x1b[2J\nb", Resource: "secrets"}).String(); strings.ContainsAny(text, "\x1b\n") {
		t.Errorf("%q reaches the terminal", text)
	}
}

// TestOneLandscape compares the landscape recorded in Redis with Gardener's, as a worker does at its start.
func TestOneLandscape(t *testing.T) {
	t.Parallel()
	kyma := engine.Landscape{Cluster: "uid-1", Namespace: "garden-kyma", Resource: "credentialsbindings"}
	shadow := engine.Landscape{Cluster: "uid-1", Namespace: "garden-kyma", Resource: "credentialsbindings", Shadow: true}
	other := engine.Landscape{Cluster: "uid-2", Namespace: "default", Resource: "credentialsbindings"}
	_, junk := engine.ParseLandscape("garden-kyma")
	down := errors.New("connection refused")
	for name, c := range map[string]struct {
		gardener engine.Landscape
		redis    engine.Landscape
		recorded bool
		reading  error // of Redis
		foreign  bool  // the result is a ForeignError
		cause    error // which the result wraps
	}{
		"equal":                    {gardener: kyma, redis: kyma, recorded: true},
		"one is less exact":        {gardener: kyma, redis: engine.Landscape{Namespace: kyma.Namespace, Resource: kyma.Resource}, recorded: true},
		"two that differ":          {gardener: kyma, redis: other, recorded: true, foreign: true},
		"a worker's, for a shadow": {gardener: shadow, redis: kyma, recorded: true, foreign: true},
		"Redis has no record":      {gardener: kyma},
		"no record, for a shadow":  {gardener: shadow},
		"Gardener has none":        {redis: kyma, recorded: true},
		"neither has any":          {},
		"a record that is damaged": {gardener: kyma, reading: junk, foreign: true, cause: engine.ErrNoLandscape},
		"damaged, and counted":     {gardener: kyma, recorded: true, reading: junk, foreign: true, cause: engine.ErrNoLandscape},
		"Redis does not answer":    {gardener: kyma, reading: down, cause: down},
		"no answer to a record":    {gardener: kyma, redis: other, recorded: true, reading: down, cause: down},
	} {
		own := engine.Place{At: "namespace garden-kyma of Gardener", Landscape: c.gardener}
		found := engine.Place{At: "Redis at redis://127.0.0.1:6379", Landscape: c.redis}
		err := engine.OneLandscape(own, found, c.recorded, c.reading)
		if (err != nil) != (c.foreign || c.cause != nil) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if c.cause != nil && !errors.Is(err, c.cause) {
			t.Errorf("%s: %v, which does not say %v", name, err, c.cause)
		}
		foreign, is := errors.AsType[*engine.ForeignError](err)
		if is != c.foreign {
			t.Errorf("%s: foreign is %t: %v", name, is, err)
		}
		if is && (foreign.Found != found || foreign.Own != own) {
			t.Errorf("%s: the places are %+v and %+v", name, foreign.Found, foreign.Own)
		}
		if is && c.cause == nil && !(strings.Contains(err.Error(), found.String()) && strings.Contains(err.Error(), own.String())) {
			t.Errorf("%s: %q does not name both", name, err)
		}
	}
}
