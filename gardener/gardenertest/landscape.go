package gardenertest

import (
	"strconv"
	"strings"
	"testing"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/suggest/suggesttest"
	"github.com/hap-worker/hap-worker/gardener"
)

// landscape adapts a client to the suite that it shares with the bindings in memory.
type landscape struct {
	*gardener.Client
	t        *testing.T
	b        *bench
	told     *changes
	referred map[string]func(string) string // by binding
	secrets  map[string]bool                // by binding: its Secret was created, and stays if the binding is deleted
}

// testLandscape runs the suite that the bindings in memory pass too.
func testLandscape(t *testing.T, newServer func(t *testing.T) Server) {
	t.Helper()
	suggesttest.Run(t, func(t *testing.T) suggesttest.Landscape {
		b := newBench(t, newServer(t))
		l := &landscape{t: t, b: b, referred: map[string]func(string) string{}, secrets: map[string]bool{}}
		l.Client, l.told = b.watching(t, gardener.Options{})
		return l
	})
}

func (l *landscape) Type() string      { return l.b.id }
func (l *landscape) Name(n int) string { return l.b.name(n) }

func (l *landscape) Create(b engine.Binding) {
	l.t.Helper()
	n, err := strconv.Atoi(strings.TrimPrefix(b.Name, l.b.id+"-"))
	if err != nil {
		l.t.Fatal(err)
	}
	if l.secrets[b.Name] {
		l.b.binding(l.t, b.Name, b.Name, labelsOf(b))
		return
	}
	l.b.account(l.t, n, labelsOf(b))
	l.secrets[b.Name] = true
}

// labelsOf returns the labels of a binding in the default spelling.
func labelsOf(b engine.Binding) map[string]string {
	labels := map[string]string{}
	for label, value := range map[string]string{"hyperscalerType": b.HyperscalerType, "tenantName": b.Tenant} {
		if value != "" {
			labels[label] = value
		}
	}
	for label, is := range map[string]bool{
		"dirty": b.Dirty, "internal": b.Internal, "shared": b.Shared, "euAccess": b.EUAccess, gardener.LabelCordon: b.Cordoned,
	} {
		if is {
			labels[label] = "true"
		}
	}
	return labels
}

func (l *landscape) Change(name string, edit func(*engine.Binding)) {
	l.t.Helper()
	b := get(l.t, l.Client, name)
	patch := map[string]any{}
	for label := range labelsOf(b) {
		patch[label] = nil
	}
	edit(&b)
	for label, value := range labelsOf(b) {
		patch[label] = value
	}
	l.b.label(l.t, name, patch)
	if b.Deleting {
		l.b.hold(l.t, l.b.resource(), name)
		l.b.remove(l.t, l.b.resource(), name)
	}
}

func (l *landscape) Remove(name string) { l.b.remove(l.t, l.b.resource(), name) }

func (l *landscape) CreateShoot(s engine.Shoot) {
	l.t.Helper()
	if l.referred[s.Binding] == nil {
		l.referred[s.Binding] = l.b.referrers(l.t, s.Binding)
	}
	field := "credentialsBindingName"
	if l.b.Resource == gardener.SecretBindings {
		field = "secretBindingName"
	}
	annotations := map[string]any{}
	if s.RuntimeID != "" {
		annotations["infrastructuremanager.kyma-project.io/runtime-id"] = s.RuntimeID
	}
	if s.Tenant != "" {
		annotations["account"] = s.Tenant
	}
	l.b.shoot(l.t, s.Name, field, l.referred[s.Binding](s.Binding), annotations)
}

func (l *landscape) Until(what string, holds func() bool) {
	l.t.Helper()
	l.told.until(l.t, what, holds)
}
