// Package clusterconfig works on the cluster with the Cluster resources: it writes network blocks to
// ClusterConfigs and Clusters, and watches Clusters and the IPAMConfig with the ranges.
package clusterconfig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/network"
	"github.com/hap-worker/hap-worker/gardener/kube"
	"github.com/hap-worker/hap-worker/gardener/verdict"
)

// Options are the callbacks and the time-out of Configs.
type Options struct {
	// Changed is called with the runtime of a ClusterConfig that was deleted, or that another writer
	// edited. One goroutine calls it. Required.
	Changed func(runtime string)
	// Warn is called with one line about something that an operator should look at.
	// It must not block. Required.
	Warn func(string)
	// Timeout bounds the requests to read and write one object; a page of a list gets kube.PageTimeouts times as
	// long. Defaults to 5 s.
	Timeout time.Duration
}

// Configs writes network blocks next to the Cluster resources: a ClusterConfig for each rule, and an
// annotation on the Cluster. It changes no ClusterConfig that is labelled as managed by another writer, and no
// object of another runtime. It is safe for concurrent use, also by several workers: every patch carries the
// resourceVersion that was read.
type Configs struct {
	*kube.ObjectWatch

	opts     Options
	http     *http.Client
	objects  dynamic.Interface
	metadata metadata.Interface
}

// New returns Configs, and sends no request yet.
func New(config *rest.Config, opts Options) (*Configs, error) {
	if opts.Changed == nil || opts.Warn == nil {
		return nil, errors.New("gardener: ClusterConfigs need Changed and Warn")
	}
	if opts.Timeout == 0 {
		opts.Timeout = 5 * time.Second
	}
	config = metadata.ConfigFor(config)
	config.QPS, config.Burst, config.RateLimiter = -1, 0, nil
	config.WarningHandlerWithContext = rest.NoWarnings{}
	c := &Configs{opts: opts}
	var err error
	if c.http, err = rest.HTTPClientFor(config); err != nil {
		return nil, fmt.Errorf("gardener: %w", err)
	}
	if c.objects, err = dynamic.NewForConfigAndClient(dynamic.ConfigFor(config), c.http); err != nil {
		return nil, fmt.Errorf("gardener: %w", err)
	}
	if c.metadata, err = metadata.NewForConfigAndClient(config, c.http); err != nil {
		return nil, fmt.Errorf("gardener: %w", err)
	}
	return c, c.watch(config)
}

// Write makes the ClusterConfigs and the annotation on the Cluster equal a note. It writes no annotation if
// there is no such Cluster. It does not change objects of others, and returns them in Noted.Taken. A repeat
// writes nothing. Errors: engine.ErrConflict (another writer wrote meanwhile), engine.ErrUnknownResult (the
// note may be written), engine.ErrUnavailable (retry later), network.ErrRefused (permanent).
func (c *Configs) Write(ctx context.Context, n network.Note) (network.Noted, error) {
	var noted network.Noted
	owner, err := c.cluster(ctx, n.Cluster)
	if err != nil {
		return noted, err
	}
	for _, applied := range n.Applied {
		should, err := configOf(n, applied, owner)
		if err != nil {
			return noted, err
		}
		if err := c.writeConfig(ctx, n, should, &noted); err != nil {
			return noted, err
		}
	}
	if owner == nil {
		return noted, nil
	}
	return noted, c.annotate(ctx, n, owner, &noted)
}

func (c *Configs) writeConfig(ctx context.Context, n network.Note, should *unstructured.Unstructured, noted *network.Noted) error {
	ctx, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	configs, op := c.objects.Resource(clusterConfigs).Namespace(should.GetNamespace()), "ClusterConfig "+should.GetNamespace()+"/"+should.GetName()
	is, err := configs.Get(ctx, should.GetName(), metav1.GetOptions{})
	if gone(err) {
		_, err = configs.Create(ctx, should, metav1.CreateOptions{FieldManager: kube.FieldManager})
		noted.Changed++
		return writeError("create "+op, err)
	}
	if err != nil {
		return readError("read "+op, err)
	}
	if by, taken := takenBy(is.GetLabels()[labelManagedBy], is.GetLabels()[labelRuntime], n); taken {
		noted.Taken = append(noted.Taken, network.Taken{Object: op, By: by})
		return nil
	}
	patch := mend(is, should)
	if patch == nil || is.GetDeletionTimestamp() != nil { // if it is being deleted, the watch reports the deletion later
		return nil
	}
	text, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	_, err = configs.Patch(ctx, should.GetName(), types.MergePatchType, text, metav1.PatchOptions{FieldManager: kube.FieldManager})
	noted.Changed++
	return writeError("patch "+op, err)
}

// cluster reads the metadata of a Cluster. It returns nil and no error if there is none.
func (c *Configs) cluster(ctx context.Context, id network.Identity) (*metav1.PartialObjectMetadata, error) {
	ctx, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	o, err := c.metadata.Resource(clusters).Namespace(id.Namespace).Get(ctx, id.Name, metav1.GetOptions{})
	if gone(err) {
		return nil, nil
	}
	return o, readError("read Cluster "+id.Namespace+"/"+id.Name, err)
}

func (c *Configs) annotate(ctx context.Context, n network.Note, cluster *metav1.PartialObjectMetadata, noted *network.Noted) error {
	rules := rulesOnCluster(cluster.Annotations)
	by, taken := takenBy("", cluster.Annotations[labelRuntime], n)
	for _, applied := range n.Applied {
		should := map[string]string{}
		for path, cidr := range applied.ByPath() {
			should[path] = cidr.String()
		}
		is, there := rules[applied.Rule]
		// An annotation without a runtime is another allocator's, and may be the only trace of the block.
		taken = taken || there && cluster.Annotations[labelRuntime] == "" && !maps.Equal(is, should)
		rules[applied.Rule] = should
	}
	if taken {
		noted.Taken = append(noted.Taken, network.Taken{Object: "Cluster " + cluster.Namespace + "/" + cluster.Name, By: by})
		return nil
	}
	changed, err := c.patchCluster(ctx, cluster, rules, n.Runtime)
	if changed {
		noted.Changed++
	}
	return err
}

func (c *Configs) patchCluster(ctx context.Context, cluster *metav1.PartialObjectMetadata, rules map[string]map[string]string, runtime string) (bool, error) {
	patch, err := clusterPatch(cluster, rules, runtime)
	if err != nil || patch == nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	_, err = c.metadata.Resource(clusters).Namespace(cluster.Namespace).
		Patch(ctx, cluster.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: kube.FieldManager})
	return true, writeError("annotate Cluster "+cluster.Namespace+"/"+cluster.Name, err)
}

// Remove deletes the ClusterConfigs of the note's runtime in all namespaces. It then removes rules from the
// annotations of Clusters: the rules of each deleted ClusterConfig from its Cluster, and the note's rules
// from the note's Cluster, each time with the runtime. It leaves a Cluster as it is that is not annotated for this
// runtime. The note may have nothing but the runtime. Remove returns how many objects it changed. Errors as for
// Write.
func (c *Configs) Remove(ctx context.Context, n network.Note) (int, error) {
	selector := labels.Set{labelManagedBy: managedBy, labelRuntime: n.Runtime}.String()
	changed, of := 0, map[network.Identity][]string{}
	if n.Cluster.Name != "" && n.Cluster.Namespace != "" {
		of[n.Cluster] = nil
		for _, applied := range n.Applied {
			of[n.Cluster] = append(of[n.Cluster], applied.Rule)
		}
	}
	err := c.eachConfig(ctx, selector, func(o *unstructured.Unstructured) error {
		if was, err := noteOf(o); err == nil {
			of[was.Cluster] = append(of[was.Cluster], was.Applied[0].Rule)
		}
		changed++
		return c.delete(ctx, o)
	})
	if err != nil {
		return changed, err
	}
	for id, rules := range of {
		cluster, err := c.cluster(ctx, id)
		if err != nil {
			return changed, err
		}
		if cluster == nil || cluster.Annotations[labelRuntime] != n.Runtime {
			continue
		}
		left := rulesOnCluster(cluster.Annotations)
		maps.DeleteFunc(left, func(rule string, _ map[string]string) bool { return slices.Contains(rules, rule) })
		one, err := c.patchCluster(ctx, cluster, left, "")
		if one {
			changed++
		}
		if err != nil {
			return changed, err
		}
	}
	return changed, nil
}

// delete deletes the object that was read, and no later one of the same name.
func (c *Configs) delete(ctx context.Context, o *unstructured.Unstructured) error {
	ctx, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	uid := o.GetUID()
	err := c.objects.Resource(clusterConfigs).Namespace(o.GetNamespace()).
		Delete(ctx, o.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if gone(err) || apierrors.IsConflict(err) {
		return nil // another writer deleted it, and may have created it again
	}
	return writeError("delete ClusterConfig "+o.GetNamespace()+"/"+o.GetName(), err)
}

// All returns the notes in all Clusters and in all ClusterConfigs with the purpose of Gardener-IPAM, of every
// allocator. It leaves out a ClusterConfig that it cannot read, and warns. Errors as for Write.
func (c *Configs) All(ctx context.Context) (network.Notes, error) {
	var notes network.Notes
	err := c.eachConfig(ctx, labelManagedPurpose+"="+managedPurpose, func(o *unstructured.Unstructured) error {
		n, err := noteOf(o)
		if err != nil {
			c.opts.Warn(fmt.Sprintf("ClusterConfig %s/%s is not readable: %v", o.GetNamespace(), o.GetName(), err))
			return nil
		}
		notes.Configs = append(notes.Configs, n)
		return nil
	})
	if err != nil {
		return notes, err
	}
	err = pages(ctx, c.opts.Timeout, func(ctx context.Context, o metav1.ListOptions) (string, error) {
		list, err := c.metadata.Resource(clusters).List(ctx, o)
		if err != nil {
			return "", err
		}
		for i := range list.Items {
			notes.Clusters = append(notes.Clusters, noteOfCluster(&list.Items[i]))
		}
		return list.Continue, nil
	})
	return notes, readError("list Clusters", err)
}

func (c *Configs) eachConfig(ctx context.Context, selector string, visit func(*unstructured.Unstructured) error) error {
	var found []unstructured.Unstructured
	err := pages(ctx, c.opts.Timeout, func(ctx context.Context, o metav1.ListOptions) (string, error) {
		o.LabelSelector = selector
		list, err := c.objects.Resource(clusterConfigs).List(ctx, o)
		if err != nil {
			return "", err
		}
		found = append(found, list.Items...)
		return list.GetContinue(), nil
	})
	if err != nil {
		return readError("list ClusterConfigs", err)
	}
	for i := range found {
		if err := visit(&found[i]); err != nil {
			return err
		}
	}
	return nil
}

// pages calls page for each page of a list, until page returns no next page or an error, which pages
// returns. timeout is that of one object.
func pages(ctx context.Context, timeout time.Duration, page func(context.Context, metav1.ListOptions) (next string, err error)) error {
	options := metav1.ListOptions{Limit: kube.PageSize}
	for {
		within, cancel := context.WithTimeout(ctx, kube.PageTimeouts*timeout)
		next, err := page(within, options)
		cancel()
		if err != nil || next == "" {
			return err
		}
		options.Continue = next
	}
}

// gone reports whether an object does not exist although the server has its kind.
func gone(err error) bool {
	return verdict.Of(err, false) == verdict.Missing
}

// readError wraps an error of a read of the API in the error that callers test for. It returns nil for nil.
func readError(op string, err error) error { return noteError(op, false, err) }

// writeError is readError for a write, of which the result may be unknown.
func writeError(op string, err error) error { return noteError(op, true, err) }

func noteError(op string, write bool, err error) error {
	if err == nil {
		return nil
	}
	as := engine.ErrUnavailable
	switch verdict.Of(err, write) {
	case verdict.Conflict:
		as = engine.ErrConflict
	case verdict.Unknown:
		as = engine.ErrUnknownResult
	case verdict.Invalid:
		as = network.ErrRefused
	case verdict.Barred:
		if apierrors.IsInvalid(err) { // invalid for ever, unlike a missing right, which may be granted later
			as = network.ErrRefused
		}
	case verdict.Again, verdict.Missing, verdict.Refused, verdict.Expired: // Missing: the namespace does not exist
	}
	return &verdict.Error{Op: "gardener: " + op, As: as, Err: err}
}
