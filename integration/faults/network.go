package faults

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/hap-worker/hap-worker/events"
)

var (
	ipamResource      = schema.GroupVersionResource{Group: "gardener.clusters.openmcp.cloud", Version: "v1alpha1", Resource: "ipamconfigs"}
	clusterResource   = schema.GroupVersionResource{Group: "clusters.openmcp.cloud", Version: "v1alpha1", Resource: "clusters"}
	namespaceResource = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
)

// networkConfig enables network ranges and ClusterConfigs.
const networkConfig = "network: {config: ipam, clusterConfigs: true}\n"

// clustersNamespace is the namespace of all clusters.
const clustersNamespace = "clusters"

// rulesFirst apply to the first half of a run, with room for fewer clusters than the broker wants. rulesThen
// apply to the second half: their additional rule matches existing clusters, too.
const (
	rulesFirst = `
internalStateRefreshCycleDuration: 15s
parentCIDRs: {narrow: [10.50.0.0/22], wide: [10.60.0.0/16]}
injectionRules:
- {id: all, injections: [{path: /spec/network/all, parents: [narrow], subnetSize: 28}]}
- id: pair
  matchPurposes: [{operator: ContainsAny, values: [pair]}]
  injections:
  - {id: outer, path: /spec/network/outer, parents: [wide], subnetSize: 26}
  - {path: /spec/network/inner, parents: [outer], subnetSize: 29}
`
	rulesThen = rulesFirst + `- {id: late, matchPurposes: [{operator: ContainsAny, values: [pair, late]}], injections: [{path: /spec/network/late, parents: [wide], subnetSize: 27}]}
`
)

// clusterOf returns the cluster of a runtime: one of three kinds, by its id.
func clusterOf(rt *runtime) *events.Cluster {
	purposes := [][]string{{"pair"}, {"late"}, {"other"}}[int(rt.id[len(rt.id)-1])%3]
	return &events.Cluster{Name: rt.id, Namespace: clustersNamespace, Purposes: purposes}
}

// networks prepares the landscape for network ranges: the configuration, and a namespace with some of the
// Clusters.
func (r *run) networks(ctx context.Context, kube *rest.Config) (err error) {
	if r.api, err = dynamic.NewForConfig(kube); err != nil {
		return err
	}
	if err := r.create(ctx, namespaceResource, "", "v1", "Namespace", clustersNamespace); err != nil {
		return err
	}
	for n := range 40 {
		if err := r.create(ctx, clusterResource, clustersNamespace, "clusters.openmcp.cloud/v1alpha1", "Cluster", fmt.Sprintf("rt-%05d", n*7)); err != nil {
			return err
		}
	}
	return r.configure(rulesFirst)
}

func (r *run) create(ctx context.Context, resource schema.GroupVersionResource, namespace, version, kind, name string) error {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetAPIVersion(version)
	o.SetKind(kind)
	o.SetName(name)
	_, err := r.api.Resource(resource).Namespace(namespace).Create(ctx, o, metav1.CreateOptions{})
	return err
}

// configure writes the network rules.
func (r *run) configure(rules string) error {
	spec := map[string]any{}
	if err := yaml.Unmarshal([]byte(rules), &spec); err != nil {
		return err
	}
	o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	o.SetAPIVersion("gardener.clusters.openmcp.cloud/v1alpha1")
	o.SetKind("IPAMConfig")
	o.SetName("ipam")
	_, err := r.api.Resource(ipamResource).Apply(r.ctx, "ipam", o, metav1.ApplyOptions{FieldManager: "faults", Force: true})
	return err
}
