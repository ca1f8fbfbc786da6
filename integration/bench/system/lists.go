package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
)

const (
	listNamespace = "garden-lists"
	listBindings  = 2000
	listTime      = 5 * time.Second // of a round
)

// lists is the predecessor's way: one process, a mutex, and for each request a list
// of the bindings that carry the tenant's name.
type lists struct {
	mu  sync.Mutex
	api dynamic.ResourceInterface
}

// account finds the tenant's binding. What it is then used by, the predecessor asks
// its database; that is left out here.
func (l *lists) account(ctx context.Context, tenant string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	found, err := l.api.List(ctx, metav1.ListOptions{LabelSelector: "hyperscalerType=aws,tenantName=" + tenant + ",!shared,!euAccess,dirty!=true"})
	if err == nil && len(found.Items) != 1 {
		err = fmt.Errorf("tenant %s has %d bindings", tenant, len(found.Items))
	}
	return err
}

// listRound asks for the accounts of tenants among 2,000 bindings.
func (b *bench) listRound(ctx context.Context, r *report) error {
	client, err := b.unlimited()
	if err != nil {
		return err
	}
	l := &lists{api: client.Resource(bindings).Namespace(listNamespace)}
	if b.round == 0 {
		if err := b.seedLists(ctx, client, l.api); err != nil {
			return err
		}
	}
	begin, n := time.Now(), 0
	for ; time.Since(begin) < listTime; n++ {
		if err := l.account(ctx, fmt.Sprintf("ga-%d", n%listBindings)); err != nil {
			return fmt.Errorf("%s: %w", nameLists, err)
		}
	}
	r.add(nameLists, sample{Rate: float64(n) / time.Since(begin).Seconds()})
	return nil
}

func (b *bench) seedLists(ctx context.Context, client dynamic.Interface, api dynamic.ResourceInterface) error {
	if err := b.makeNamespace(ctx, client, listNamespace); err != nil {
		return err
	}
	numbers := make([]int, listBindings)
	for i := range numbers {
		numbers[i] = i
	}
	return concurrently(numbers, func(n int) error {
		o := &unstructured.Unstructured{Object: map[string]any{
			"provider":       map[string]any{"type": "aws"},
			"credentialsRef": map[string]any{"apiVersion": "v1", "kind": "Secret", "namespace": listNamespace, "name": "none"},
		}}
		o.SetAPIVersion("security.gardener.cloud/v1alpha1")
		o.SetKind("CredentialsBinding")
		o.SetName(fmt.Sprintf("aws-%d", n))
		o.SetLabels(map[string]string{"hyperscalerType": "aws", "tenantName": fmt.Sprintf("ga-%d", n)})
		_, err := api.Create(ctx, o, metav1.CreateOptions{})
		return err
	})
}
