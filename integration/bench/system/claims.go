package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/hap-worker/hap-worker/events"
)

var bindings = schema.GroupVersionResource{Group: "security.gardener.cloud", Version: "v1alpha1", Resource: "credentialsbindings"}

// claimRound lets the worker claim accounts for new tenants, and then patches as many bindings directly, bareHandlers
// at a time.
func (b *bench) claimRound(ctx context.Context, r *report) error {
	ctx, cancel := context.WithTimeout(ctx, roundLimit)
	defer cancel()
	batch := make([]event, b.claims)
	for i := range batch {
		e, err := b.publish.claim(fmt.Sprintf("c-%d-%d", b.round, i))
		if err != nil {
			return err
		}
		batch[i] = e
	}
	s, err := b.ofWorker(ctx, batch)
	if err != nil {
		return fmt.Errorf("%s: %w", nameClaims, err)
	}
	r.add(nameClaims, s)
	if s, err = b.patchRound(ctx); err != nil {
		return fmt.Errorf("%s: %w", namePatches, err)
	}
	r.add(namePatches, s)
	return nil
}

// claim returns the provision of a new tenant.
func (p *publisher) claim(tenant string) (event, error) {
	e := events.Event{Type: events.TypeProvision, ID: "p-" + tenant, Source: "/bench", RuntimeID: tenant, Provision: &events.Provision{
		RuntimeID: tenant, GlobalAccountID: tenant, Plan: "azure",
	}}
	data, err := events.EncodeEvent(e)
	return event{subject: p.subjects.Provision(tenant), id: "provision/" + e.ID, reply: e.ReplySubject(p.subjects), data: data, replies: 1}, err
}

// unlimited returns a client of the Kubernetes API without a client-side rate limit.
func (b *bench) unlimited() (*dynamic.DynamicClient, error) {
	c, err := b.stack.Kube.Config()
	if err != nil {
		return nil, err
	}
	c = rest.CopyConfig(c)
	c.QPS = -1
	return dynamic.NewForConfig(c)
}

// patchRound writes a label to as many bindings as a round has claims, the first ones of the list, with their
// resourceVersion.
func (b *bench) patchRound(ctx context.Context) (sample, error) {
	client, err := b.unlimited()
	if err != nil {
		return sample{}, err
	}
	api := client.Resource(bindings).Namespace(b.stack.Target.Namespace)
	list, err := api.List(ctx, metav1.ListOptions{LabelSelector: "hyperscalerType=azure"})
	if err != nil {
		return sample{}, err
	}
	work := list.Items[:b.claims]
	begin := time.Now()
	err = concurrently(work, func(o unstructured.Unstructured) error {
		patch := fmt.Sprintf(`{"metadata":{"resourceVersion":%q,"labels":{"patched":"round-%d"}}}`, o.GetResourceVersion(), b.round)
		_, err := api.Patch(ctx, o.GetName(), types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	})
	return sample{Rate: float64(len(work)) / time.Since(begin).Seconds()}, err
}

// concurrently calls do for all items, bareHandlers at a time, also after errors. It returns the first error.
func concurrently[T any](items []T, do func(T) error) error {
	next := make(chan T)
	var all sync.WaitGroup
	failed := make(chan error, bareHandlers)
	for range bareHandlers {
		all.Go(func() {
			for item := range next {
				if err := do(item); err != nil {
					select {
					case failed <- err:
					default:
					}
				}
			}
		})
	}
	for _, item := range items {
		next <- item
	}
	close(next)
	all.Wait()
	close(failed)
	return <-failed
}
