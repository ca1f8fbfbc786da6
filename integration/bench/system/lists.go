package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/hap-worker/hap-worker/integration/stack"
)

const (
	listNamespace = "garden-lists"
	listBindings  = 2000
	listTime      = 3 * time.Second // of each question in a round
)

// lists is the predecessor's way: one process, a mutex, and for each request a list
// of the bindings that carry the tenant's name.
type lists struct {
	mu  sync.Mutex
	api dynamic.ResourceInterface
}

// ask lists what a selector finds, and wants so many. What an account is used by, the
// predecessor asks its database; that is left out here, as is the write of a claim.
func (l *lists) ask(ctx context.Context, selector string, want int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	found, err := l.api.List(ctx, metav1.ListOptions{LabelSelector: "hyperscalerType=aws,!shared,!euAccess,dirty!=true," + selector})
	if err == nil && len(found.Items) != want {
		err = fmt.Errorf("%s has %d bindings, not %d", selector, len(found.Items), want)
	}
	return err
}

// question is a request of the predecessor to the API.
type question struct {
	name, ofStore string // of the measurement: where the API answers from its cache, and where from its store
	selector      func(n int) string
	want          int
}

// questions are for the account of a tenant, and for those that no tenant has.
func questions() []question {
	return []question{
		{nameLists, nameListsStore, func(n int) string { return fmt.Sprintf("tenantName=ga-%d", n%(listBindings/2)) }, 1},
		{nameListsFree, nameListsFreeStore, func(int) string { return "!tenantName" }, listBindings / 2},
	}
}

// listRound asks among 2,000 bindings of which half are claimed.
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
	for _, q := range questions() {
		if err := l.measure(ctx, r, q, q.name); err != nil {
			return err
		}
	}
	return nil
}

// storeLists asks the same of an API server without a cache, which reads its store for each
// list: so did all servers before Kubernetes 1.31, since such a list must not be out of date.
func (b *bench) storeLists(ctx context.Context, r *report) (err error) {
	st, err := stack.Start(ctx, stack.Options{
		Gardener: stack.CRDGardener, Config: []byte(config), Accounts: []stack.Account{}, KubeArgs: []string{"--watch-cache=false"}, Talk: os.Stderr,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Stop()) }()
	uncached := &bench{settings: b.settings, stack: st}
	client, err := uncached.unlimited()
	if err != nil {
		return err
	}
	l := &lists{api: client.Resource(bindings).Namespace(listNamespace)}
	if err := uncached.seedLists(ctx, client, l.api); err != nil {
		return err
	}
	for range b.rounds {
		for _, q := range questions() {
			if err := l.measure(ctx, r, q, q.ofStore); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *lists) measure(ctx context.Context, r *report, q question, name string) error {
	begin, n := time.Now(), 0
	for ; time.Since(begin) < listTime; n++ {
		if err := l.ask(ctx, q.selector(n), q.want); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	r.add(name, sample{Rate: float64(n) / time.Since(begin).Seconds()})
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
		labels := map[string]string{"hyperscalerType": "aws"}
		if n < listBindings/2 {
			labels["tenantName"] = fmt.Sprintf("ga-%d", n)
		}
		o.SetLabels(labels)
		_, err := api.Create(ctx, o, metav1.CreateOptions{})
		return err
	})
}
