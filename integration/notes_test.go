package integration_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/hap-worker/hap-worker/cmd/daemon"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/gardener"
	"github.com/hap-worker/hap-worker/integration/faulty"
)

// described are the Events of a binding as kubectl describe asks for them, by name,
// namespace, kind and uid, in order of time: reason and count.
func (l *landscape) described(binding string) []string {
	l.t.Helper()
	namespace := l.stack.Target.Namespace
	object, err := l.api.Resource(l.bindings()).Namespace(namespace).Get(l.ctx, binding, metav1.GetOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	of := map[string]string{"name": binding, "namespace": namespace, "kind": object.GetKind(), "uid": string(object.GetUID())}
	found, err := l.api.Resource(schema.GroupVersionResource{Version: "v1", Resource: "events"}).Namespace(namespace).List(l.ctx, metav1.ListOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	slices.SortStableFunc(found.Items, func(a, b unstructured.Unstructured) int { // both are made in a second
		return strings.Compare(a.GetResourceVersion(), b.GetResourceVersion())
	})
	var reasons []string
	for _, e := range found.Items {
		about, _, _ := unstructured.NestedStringMap(e.Object, "involvedObject")
		if slices.ContainsFunc([]string{"name", "namespace", "kind", "uid"}, func(field string) bool { return about[field] != of[field] }) {
			continue
		}
		count, _, _ := unstructured.NestedInt64(e.Object, "count")
		reason, _, _ := unstructured.NestedString(e.Object, "reason")
		reasons = append(reasons, fmt.Sprintf("%s x%d", reason, count))
	}
	slices.Sort(reasons)
	return reasons
}

// TestEventsOfBindings: two workers tell the life of an account, each part of it once.
func TestEventsOfBindings(t *testing.T) {
	t.Parallel()
	l := newLandscapeOf(t, accountKind{gardener: ", events: true"}, oneAccountRules, accounts("aws", 2))
	l.work(daemon.Options{})
	l.work(daemon.Options{})
	e := ask("rt-1", "ga-1")
	l.provision(e)
	name := l.assigned(e)
	l.label(name, map[string]any{gardener.LabelCordon: "true"})
	refusedWith(t, l.released(releaseEvent("too-early", name, 0)), engine.CodeNotDirty)
	refusedWith(t, l.released(releaseEvent("nobodys", "no-such-binding", 0)), engine.CodeUnknownBinding)
	gone := l.left(goes(e.RuntimeID, "ga-1"))
	l.released(releaseEvent("clean", name, gone.Binding.Generation))
	want := []string{"Claimed x1", "Cordoned x1", "Dirty x1", "ReleaseRefused x1", "Released x1"}
	eventually(l.ctx, t, func() error {
		if got := l.described(name); !slices.Equal(got, want) {
			return fmt.Errorf("of %s there are %q, want %q", name, got, want)
		}
		return nil
	})
}

// TestEventsHoldNothingUp: where the API refuses an Event, or hangs, requests are answered all
// the same, and later Events are written.
func TestEventsHoldNothingUp(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]faulty.Fault{"refuses": {Status: http.StatusForbidden}, "hangs": {Delay: 6 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLandscapeOf(t, accountKind{gardener: ", events: true"}, oneAccountRules, accounts("aws", 30))
			proxy, through := l.faultyAPI()
			var met atomic.Bool
			proxy.Choose(func(r *http.Request) faulty.Fault {
				if strings.Contains(r.URL.Path, "/events") && !met.Swap(true) {
					return fault
				}
				return faulty.Fault{}
			})
			w := l.work(daemon.Options{Env: through})
			for n := range 30 {
				e := ask(fmt.Sprint("rt-", n), fmt.Sprint("ga-", n))
				l.provision(e)
				l.assigned(e)
			}
			eventually(l.ctx, t, func() error {
				if failed := w.metric(`hap_kubernetes_events_total{result="failed"}`); failed != "1" {
					return fmt.Errorf("%s failures are counted, want 1", failed)
				}
				if written := w.metric(`hap_kubernetes_events_total{result="written"}`); written == "0" {
					return errors.New("no Event is written afterwards")
				}
				return nil
			})
		})
	}
}
