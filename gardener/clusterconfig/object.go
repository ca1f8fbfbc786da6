package clusterconfig

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/hap-worker/hap-worker/engine/network"
)

var (
	clusterConfigs = schema.GroupVersionResource{Group: "gardener.clusters.openmcp.cloud", Version: "v1alpha1", Resource: "clusterconfigs"}
	clusters       = schema.GroupVersionResource{Group: "clusters.openmcp.cloud", Version: "v1alpha1", Resource: "clusters"}
)

// The keys on ClusterConfigs and Clusters. The first five are those of Gardener-IPAM.
const (
	labelCluster        = "ipam.gardener.clusters.openmcp.cloud/cluster"
	labelRule           = "ipam.gardener.clusters.openmcp.cloud/injection-rule"
	labelManagedBy      = "openmcp.cloud/managed-by"
	labelManagedPurpose = "openmcp.cloud/managed-purpose"
	annotationApplied   = "ipam.gardener.clusters.openmcp.cloud/applied-injection-rules"

	managedBy      = "hap-worker"
	managedPurpose = "gardener-ipam"

	labelRuntime      = "hap-worker/runtime" // of a ClusterConfig; on a Cluster an annotation
	annotationCluster = "hap-worker/cluster" // the whole name of the Cluster; labelCluster may have a shortened one
	annotationRule    = "hap-worker/rule"    // the whole id of the rule; labelRule may have a shortened one
	annotationNetwork = "hap-worker/network" // the blocks, as a reply has them
)

// longest is the maximum length of names of ClusterConfigs and of label values.
const longest = 63

// shortened returns the text or, if it is longer than longest, its beginning with a hash.
func shortened(text string) string {
	if len(text) <= longest {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	hash := hex.EncodeToString(sum[:4])
	return strings.TrimRight(text[:longest-len(hash)-1], "-.") + "-" + hash
}

// configName returns the name of the ClusterConfig of a rule.
func configName(cluster, rule string) string { return shortened(cluster + "--ipam--" + rule) }

// block is a block in the form of annotationNetwork.
type block struct {
	ID    string   `json:"id"`
	CIDR  string   `json:"cidr"`
	Paths []string `json:"paths"`
}

func blocksText(applied network.Applied) (string, error) {
	var all []block
	for _, b := range applied.Blocks {
		all = append(all, block{ID: b.ID, CIDR: b.CIDR.String(), Paths: b.Paths})
	}
	text, err := json.Marshal(all)
	return string(text), err
}

// specOf returns the spec of a ClusterConfig, which adds the blocks of a rule to a Shoot.
func specOf(applied network.Applied) map[string]any {
	patches := []any{}
	for _, b := range applied.Blocks {
		for _, path := range b.Paths {
			patches = append(patches, map[string]any{"op": "add", "path": path, "value": b.CIDR.String()})
		}
	}
	return map[string]any{"patchOptions": map[string]any{"createMissingOnAdd": true}, "patches": patches}
}

func labelsOf(n network.Note, rule string) map[string]string {
	return map[string]string{
		labelCluster: shortened(n.Cluster.Name), labelRule: shortened(rule),
		labelManagedBy: managedBy, labelManagedPurpose: managedPurpose, labelRuntime: n.Runtime,
	}
}

// configOf returns the ClusterConfig of one rule of a note. owner is nil if there is no Cluster.
func configOf(n network.Note, applied network.Applied, owner *metav1.PartialObjectMetadata) (*unstructured.Unstructured, error) {
	text, err := blocksText(applied)
	if err != nil {
		return nil, err
	}
	o := &unstructured.Unstructured{Object: map[string]any{"spec": specOf(applied)}}
	o.SetAPIVersion(clusterConfigs.GroupVersion().String())
	o.SetKind("ClusterConfig")
	o.SetNamespace(n.Cluster.Namespace)
	o.SetName(configName(n.Cluster.Name, applied.Rule))
	o.SetLabels(labelsOf(n, applied.Rule))
	o.SetAnnotations(map[string]string{annotationCluster: n.Cluster.Name, annotationRule: applied.Rule, annotationNetwork: text})
	if owner != nil {
		o.SetOwnerReferences([]metav1.OwnerReference{ownerOf(owner)})
	}
	return o, nil
}

func ownerOf(cluster *metav1.PartialObjectMetadata) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: clusters.GroupVersion().String(), Kind: "Cluster", Name: cluster.Name, UID: cluster.UID,
	}
}

// mend returns the merge patch that changes the object "is" to "should", nil if nothing differs. The patch
// keeps labels, annotations and owners of others.
func mend(is, should *unstructured.Unstructured) map[string]any {
	metadata := map[string]any{}
	if labels := differing(is.GetLabels(), should.GetLabels()); len(labels) > 0 {
		metadata["labels"] = labels
	}
	if annotations := differing(is.GetAnnotations(), should.GetAnnotations()); len(annotations) > 0 {
		metadata["annotations"] = annotations
	}
	if owners := owners(is, should); !reflect.DeepEqual(owners, is.GetOwnerReferences()) {
		metadata["ownerReferences"] = owners
	}
	patch := map[string]any{}
	if spec := replaced(is.Object["spec"], should.Object["spec"]); !reflect.DeepEqual(is.Object["spec"], should.Object["spec"]) {
		patch["spec"] = spec
	}
	if len(metadata)+len(patch) == 0 {
		return nil
	}
	metadata["resourceVersion"] = is.GetResourceVersion()
	patch["metadata"] = metadata
	return patch
}

// differing returns the entries of should that are missing or different.
func differing(is, should map[string]string) map[string]string {
	out := map[string]string{}
	for key, value := range should {
		if is[key] != value {
			out[key] = value
		}
	}
	return out
}

// owners returns the present owners and those that should be there. It leaves out a former Cluster,
// whose deletion would delete the object, too.
func owners(is, should *unstructured.Unstructured) []metav1.OwnerReference {
	want := should.GetOwnerReferences()
	kept := slices.DeleteFunc(is.GetOwnerReferences(), func(o metav1.OwnerReference) bool {
		return len(want) > 0 && o.Kind == "Cluster" && o.APIVersion == want[0].APIVersion && o.UID != want[0].UID
	})
	for _, o := range want {
		if !slices.ContainsFunc(kept, func(k metav1.OwnerReference) bool { return k.UID == o.UID }) {
			kept = append(kept, o)
		}
	}
	return kept
}

// replaced returns the merge patch from one value to another: members that only the first one has
// become null.
func replaced(is, should any) any {
	from, _ := is.(map[string]any)
	to, ok := should.(map[string]any)
	if !ok {
		return should
	}
	patch := map[string]any{}
	for key := range from {
		patch[key] = nil
	}
	for key, value := range to {
		patch[key] = replaced(from[key], value)
	}
	return patch
}

// takenBy reports whether an object that a note needs belongs to others: by its labelManagedBy to another writer (by
// is then ""), or to another runtime (by is then its id). managed and runtime are the values of labelManagedBy and
// labelRuntime on the object, "" for none.
func takenBy(managed, runtime string, n network.Note) (by string, taken bool) {
	if managed != "" && managed != managedBy {
		return "", true
	}
	return runtime, runtime != "" && runtime != n.Runtime
}

// noteOf reads a ClusterConfig: the note in its annotations or, if they cannot be read or are another
// writer's, the patches in its spec.
func noteOf(o *unstructured.Unstructured) (network.Note, error) {
	labels, annotations := o.GetLabels(), o.GetAnnotations()
	n := network.Note{Cluster: network.Identity{Namespace: o.GetNamespace(), Name: labels[labelCluster]}}
	rule := labels[labelRule]
	if labels[labelManagedBy] != managedBy {
		blocks, err := patched(o)
		n.Applied = []network.Applied{{Rule: rule, Blocks: blocks}}
		return n, err
	}
	n.Runtime = labels[labelRuntime]
	if name := annotations[annotationCluster]; name != "" {
		n.Cluster.Name = name
	}
	if id := annotations[annotationRule]; id != "" {
		rule = id
	}
	blocks, err := written(annotations[annotationNetwork])
	if err != nil {
		if blocks, err = patched(o); err != nil {
			return n, err
		}
	}
	applied := network.Applied{Rule: rule, Blocks: blocks}
	n.Applied = []network.Applied{applied}
	should, err := configOf(n, applied, nil)
	if err != nil {
		return n, err
	}
	n.Edited = mend(o, should) != nil || o.GetName() != should.GetName()
	return n, nil
}

// written reads annotationNetwork.
func written(text string) ([]network.Block, error) {
	var all []block
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return nil, err
	}
	var blocks []network.Block
	for _, b := range all {
		cidr, err := netip.ParsePrefix(b.CIDR)
		if err != nil || !cidr.Addr().Is4() || len(b.Paths) == 0 {
			return nil, fmt.Errorf("%s of a ClusterConfig: %q is no IPv4 CIDR with paths", annotationNetwork, b.CIDR)
		}
		blocks = append(blocks, network.Block{ID: b.ID, CIDR: cidr.Masked(), Paths: b.Paths})
	}
	return blocks, nil
}

// patched returns the IPv4 blocks that a ClusterConfig adds to a Shoot.
func patched(o *unstructured.Unstructured) ([]network.Block, error) {
	patches, _, err := unstructured.NestedSlice(o.Object, "spec", "patches")
	if err != nil {
		return nil, err
	}
	var blocks []network.Block
	for _, p := range patches {
		patch, _ := p.(map[string]any)
		value, _ := patch["value"].(string)
		path, _ := patch["path"].(string)
		if cidr, err := netip.ParsePrefix(value); err == nil && cidr.Addr().Is4() && patch["op"] == "add" {
			blocks = atPath(blocks, cidr.Masked(), path)
		}
	}
	return blocks, nil
}

func atPath(blocks []network.Block, cidr netip.Prefix, path string) []network.Block {
	i := slices.IndexFunc(blocks, func(b network.Block) bool { return b.CIDR == cidr })
	if i < 0 {
		return append(blocks, network.Block{CIDR: cidr, Paths: []string{path}})
	}
	blocks[i].Paths = append(blocks[i].Paths, path)
	return blocks
}

// rulesOnCluster decodes the annotation of a Cluster: CIDR by JSON pointer, by rule. It returns an
// empty map if the annotation is missing or unreadable.
func rulesOnCluster(annotations map[string]string) map[string]map[string]string {
	rules := map[string]map[string]string{}
	if err := json.Unmarshal([]byte(annotations[annotationApplied]), &rules); err != nil || rules == nil {
		return map[string]map[string]string{}
	}
	return rules
}

// noteOfCluster returns the note in the annotations of a Cluster.
func noteOfCluster(o *metav1.PartialObjectMetadata) network.Note {
	n := network.Note{Runtime: o.Annotations[labelRuntime], Cluster: network.Identity{Name: o.Name, Namespace: o.Namespace}}
	rules := rulesOnCluster(o.Annotations)
	for _, rule := range slices.Sorted(maps.Keys(rules)) {
		applied := network.Applied{Rule: rule}
		for _, path := range slices.Sorted(maps.Keys(rules[rule])) {
			if cidr, err := netip.ParsePrefix(rules[rule][path]); err == nil && cidr.Addr().Is4() {
				applied.Blocks = atPath(applied.Blocks, cidr.Masked(), path)
			}
		}
		n.Applied = append(n.Applied, applied)
	}
	return n
}

// clusterPatch returns the merge patch that sets the rules and the runtime in a Cluster's annotations, nil
// if nothing differs. It removes the annotation of the rules if there are none, and that of the runtime if it is "".
func clusterPatch(o *metav1.PartialObjectMetadata, rules map[string]map[string]string, runtime string) ([]byte, error) {
	if reflect.DeepEqual(rulesOnCluster(o.Annotations), rules) && o.Annotations[labelRuntime] == runtime {
		return nil, nil
	}
	annotations := map[string]any{annotationApplied: nil, labelRuntime: nil}
	if len(rules) > 0 {
		text, err := json.Marshal(rules)
		if err != nil {
			return nil, err
		}
		annotations[annotationApplied] = string(text)
	}
	if runtime != "" {
		annotations[labelRuntime] = runtime
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations, "resourceVersion": o.ResourceVersion}})
}
