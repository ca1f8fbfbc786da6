package faults

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// kindLabel is the label with the hyperscaler type of an account, which determines the account's pool.
const kindLabel = "hyperscalerType"

// toBindings moves or deletes a free account of aws or azure, like an operator who has checked that no tenant has it.
// If a worker changes the account in the meantime, the account stays as the worker wrote it.
func (r *run) toBindings(a Action) bool {
	if !r.bindsBy.TryLock() {
		return false
	}
	defer r.bindsBy.Unlock()
	at := r.kube.Resource(r.accounts.resource).Namespace(r.namespace)
	list, err := at.List(r.ctx, metav1.ListOptions{})
	if err != nil {
		r.must(err)
		return false
	}
	free := slices.DeleteFunc(list.Items, func(o unstructured.Unstructured) bool {
		l := o.GetLabels()
		return l["tenantName"] != "" || l["dirty"] != "" || l["shared"] != "" || l["internal"] != "" || !strings.HasPrefix(l[kindLabel], "a")
	})
	if len(free) == 0 {
		return false
	}
	o := &free[r.dice(len(free))]
	if a.Kind == BindingDeleted {
		return r.replaceBinding(o, a)
	}
	from := o.GetLabels()[kindLabel]
	to := map[string]string{"aws": "azure", "azure": "aws"}[from]
	if !r.moveBinding(o, to) {
		return false
	}
	pause(r.ctx, a.For)
	r.moveBinding(o, from) // fails if a tenant has taken the account in the meantime
	return true
}

// moveBinding moves an account to the pool of another hyperscaler unless it changed since it
// was read.
func (r *run) moveBinding(o *unstructured.Unstructured, to string) bool {
	labels := maps.Clone(o.GetLabels())
	labels[kindLabel] = to
	o.SetLabels(labels)
	changed, err := r.kube.Resource(r.accounts.resource).Namespace(r.namespace).Update(r.ctx, o, metav1.UpdateOptions{})
	if err != nil {
		if !apierrors.IsConflict(err) {
			r.must(err)
		}
		return false
	}
	*o = *changed
	return true
}

// replaceBinding deletes an account unless it changed since it was read, and later creates
// another one.
func (r *run) replaceBinding(o *unstructured.Unstructured, a Action) bool {
	at := r.kube.Resource(r.accounts.resource).Namespace(r.namespace)
	version := o.GetResourceVersion()
	err := at.Delete(r.ctx, o.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &version}})
	if err != nil {
		if !apierrors.IsConflict(err) {
			r.must(err)
		}
		return false
	}
	pause(r.ctx, a.For)
	first, _, _ := strings.Cut(o.GetName(), "-after-")
	another := o.DeepCopy()
	another.SetResourceVersion("")
	another.SetUID("")
	another.SetAnnotations(nil)
	another.SetName(fmt.Sprintf("%s-after-%d", first, a.At.Milliseconds()))
	r.insist("create "+another.GetName(), func(ctx context.Context) error {
		_, err := at.Create(ctx, another, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
	return true
}
