package engine_test

import (
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
