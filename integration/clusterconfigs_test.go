package integration_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/hap-worker/hap-worker/cmd/daemon"
	"github.com/hap-worker/hap-worker/counters/blocks"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/integration/stack"
)

const (
	ipamPrefix        = "ipam.gardener.clusters.openmcp.cloud/"
	appliedAnnotation = ipamPrefix + "applied-injection-rules"
)

var (
	clusterConfigsResource = schema.GroupVersionResource{Group: "gardener.clusters.openmcp.cloud", Version: "v1alpha1", Resource: "clusterconfigs"}
	clustersResource       = schema.GroupVersionResource{Group: "clusters.openmcp.cloud", Version: "v1alpha1", Resource: "clusters"}
	namespaceResource      = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	testCluster            = map[string]string{"clusters.openmcp.cloud/test": "true"}
)

// newNoted is a landscape whose workers write ClusterConfigs. It has a separate Kubernetes
// API, since ClusterConfigs are read in all namespaces.
func newNoted(t *testing.T, spec string) *networked {
	t.Helper()
	config := oneAccountRules + "network: {config: ipam, clusterConfigs: true}\ngardener: {namespace: garden-noted}\n"
	n := &networked{name: "ipam"}
	n.landscape = landscapeOn(t, startStack(t, stack.Options{Config: []byte(config), Accounts: accounts("aws", 1)}))
	n.configure(spec)
	n.make(namespaceResource, "", object("v1", "Namespace", "clusters", nil))
	return n
}

func object(version, kind, name string, spec map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	if spec != nil {
		o.Object["spec"] = spec
	}
	o.SetAPIVersion(version)
	o.SetKind(kind)
	o.SetName(name)
	return o
}

func (n *networked) make(resource schema.GroupVersionResource, namespace string, o *unstructured.Unstructured) *unstructured.Unstructured {
	n.t.Helper()
	made, err := n.api.Resource(resource).Namespace(namespace).Create(n.ctx, o, metav1.CreateOptions{})
	if err != nil {
		n.t.Fatal(err)
	}
	return made
}

func (n *networked) makeCluster(name string) *unstructured.Unstructured {
	n.t.Helper()
	return n.make(clustersResource, "clusters", object("clusters.openmcp.cloud/v1alpha1", "Cluster", name, map[string]any{}))
}

// config reads a ClusterConfig.
func (n *networked) config(name string) (*unstructured.Unstructured, error) {
	return n.api.Resource(clusterConfigsResource).Namespace("clusters").Get(n.ctx, name, metav1.GetOptions{})
}

// patches waits until a ClusterConfig puts these CIDRs, path=cidr, into a Shoot.
func (n *networked) patches(name string, want ...string) (is *unstructured.Unstructured) {
	n.t.Helper()
	eventually(n.ctx, n.t, func() (err error) {
		if is, err = n.config(name); err != nil {
			return err
		}
		patches, _, err := unstructured.NestedSlice(is.Object, "spec", "patches")
		var got []string
		for _, p := range patches {
			patch, _ := p.(map[string]any)
			got = append(got, fmt.Sprintf("%s=%s", patch["path"], patch["value"]))
		}
		create, _, _ := unstructured.NestedBool(is.Object, "spec", "patchOptions", "createMissingOnAdd")
		if err == nil && (!create || !reflect.DeepEqual(got, want)) {
			err = fmt.Errorf("%s has %v, createMissingOnAdd %t, want %v", name, got, create, want)
		}
		return err
	})
	return is
}

// annotated waits until the annotation of a Cluster is this; "" for none.
func (n *networked) annotated(name, want string) {
	n.t.Helper()
	var expected any
	if want != "" {
		if err := json.Unmarshal([]byte(want), &expected); err != nil {
			n.t.Fatal(err)
		}
	}
	eventually(n.ctx, n.t, func() error {
		o, err := n.api.Resource(clustersResource).Namespace("clusters").Get(n.ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		var got any
		if text := o.GetAnnotations()[appliedAnnotation]; text != "" {
			err = json.Unmarshal([]byte(text), &got)
		}
		if err != nil || !reflect.DeepEqual(got, expected) {
			return fmt.Errorf("Cluster %s is annotated %v, want %s; %w", name, o.GetAnnotations(), want, err)
		}
		return nil
	})
}

// disappears waits until a ClusterConfig is gone.
func (n *networked) disappears(name string) {
	n.t.Helper()
	eventually(n.ctx, n.t, func() error {
		_, err := n.config(name)
		switch {
		case err == nil:
			return errors.New("the ClusterConfig " + name + " is still there")
		case apierrors.IsNotFound(err):
			return nil
		}
		return err
	})
}

func (n *networked) patch(resource schema.GroupVersionResource, name, patch string) {
	n.t.Helper()
	_, err := n.api.Resource(resource).Namespace("clusters").Patch(n.ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		n.t.Fatal(err)
	}
}

// TestClusterConfigs shows what is written beside the replies: as Gardener-IPAM writes it,
// restored after any edit, and gone with its runtime. What another allocator wrote
// stays, and its blocks go to no other cluster.
func TestClusterConfigs(t *testing.T) {
	t.Parallel()
	n := newNoted(t, "internalStateRefreshCycleDuration: 2s"+twoRules)
	workers := []*inProcess{n.work(daemon.Options{}), n.work(daemon.Options{})}
	owner := n.makeCluster("rt-test")
	test := cluster("rt-test", "ga-1", nil, testCluster)
	n.provision(test)
	n.given(test)

	const name, annotation = "rt-test--ipam--test", `{"test":{"/spec/network/subnetA":"10.27.0.0/24","/spec/network/subnetB":"10.27.0.0/30"}}`
	want := []string{"/spec/network/subnetA=10.27.0.0/24", "/spec/network/subnetB=10.27.0.0/30"}
	is := n.patches(name, want...)
	for key, value := range map[string]string{
		ipamPrefix + "cluster": "rt-test", ipamPrefix + "injection-rule": "test",
		"openmcp.cloud/managed-by": "hap-worker", "openmcp.cloud/managed-purpose": "gardener-ipam",
	} {
		if got := is.GetLabels()[key]; got != value {
			t.Errorf("the label %s is %q, want %q", key, got, value)
		}
	}
	if refs := is.GetOwnerReferences(); len(refs) != 1 || refs[0].Kind != "Cluster" || refs[0].UID != owner.GetUID() || refs[0].APIVersion != "clusters.openmcp.cloud/v1alpha1" {
		t.Errorf("the owners are %+v, want the Cluster", refs)
	}
	n.annotated("rt-test", annotation)
	n.isListed(name)

	if err := n.api.Resource(clusterConfigsResource).Namespace("clusters").Delete(n.ctx, name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	n.patches(name, want...)
	n.patch(clusterConfigsResource, name, `{"spec":{"patches":[{"op":"add","path":"/spec/network/subnetA","value":"10.9.0.0/24"}],"patchOptions":{"createMissingOnAdd":false}}}`)
	n.patches(name, want...)
	n.patch(clusterConfigsResource, name, `{"metadata":{"labels":{"hap-worker/runtime":null,"ipam.gardener.clusters.openmcp.cloud/cluster":"other"}}}`)
	eventually(n.ctx, t, func() error {
		is, err := n.config(name)
		if err == nil && (is.GetLabels()[ipamPrefix+"cluster"] != "rt-test" || is.GetLabels()["hap-worker/runtime"] != "rt-test") {
			err = fmt.Errorf("the labels are %v", is.GetLabels())
		}
		return err
	})
	n.patch(clustersResource, "rt-test", `{"metadata":{"annotations":{"`+appliedAnnotation+`":"{\"test\":{\"/spec/network/subnetA\":\"10.9.0.0/24\"}}"}}}`)
	n.annotated("rt-test", annotation)
	n.patch(clustersResource, "rt-test", `{"metadata":{"annotations":{"`+appliedAnnotation+`":null}}}`)
	n.annotated("rt-test", annotation)

	n.another()
	n.left(goes("rt-test", "ga-1"))
	n.disappears(name)
	n.annotated("rt-test", "")
	if _, err := n.config("theirs--ipam--rule"); err != nil {
		t.Errorf("the ClusterConfig of another allocator: %v", err)
	}

	const others = `{"test":{"/spec/network/subnetA":"10.27.9.0/24"}}`
	n.makeCluster("rt-others")
	n.patch(clustersResource, "rt-others", fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, appliedAnnotation, others))
	n.provision(cluster("rt-others", "ga-1", nil, testCluster))
	eventually(n.ctx, t, func() error {
		for _, w := range workers {
			if count, _ := strconv.Atoi(w.metric(`hap_cluster_configs_total{result="taken"}`)); count > 0 {
				return nil
			}
		}
		return errors.New("no worker has left another allocator's annotation as it is")
	})
	n.annotated("rt-others", others)
	n.left(goes("rt-others", "ga-1"))
	n.noConflicts()
}

// isListed holds the table that the API makes for kubectl get by the definition: whose block
// each ClusterConfig of rt-test is, and in the wide form its runtime and all blocks.
func (n *networked) isListed(name string) {
	n.t.Helper()
	config, err := n.stack.Kube.Config()
	if err != nil {
		n.t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		n.t.Fatal(err)
	}
	ask, err := http.NewRequestWithContext(n.ctx, http.MethodGet, config.Host+"/apis/gardener.clusters.openmcp.cloud/v1alpha1/namespaces/clusters/clusterconfigs/"+name, http.NoBody)
	if err != nil {
		n.t.Fatal(err)
	}
	ask.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	answer, err := client.Do(ask)
	if err != nil {
		n.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	var table metav1.Table
	if err := json.NewDecoder(answer.Body).Decode(&table); err != nil || len(table.Rows) != 1 {
		n.t.Fatalf("%s, %d rows, %v", answer.Status, len(table.Rows), err)
	}
	var narrow, wide []string
	for i, c := range table.ColumnDefinitions {
		cell := fmt.Sprintf("%s=%v", c.Name, table.Rows[0].Cells[i])
		switch {
		case c.Name == "Age":
			narrow = append(narrow, c.Name)
		case c.Priority == 0:
			narrow = append(narrow, cell)
		default:
			wide = append(wide, cell)
		}
	}
	const all = `[{"id":"test-cidr","cidr":"10.27.0.0/24","paths":["/spec/network/subnetA"]},{"id":"","cidr":"10.27.0.0/30","paths":["/spec/network/subnetB"]}]`
	if want := []string{"Name=" + name, "Cluster=rt-test", "Rule=test", "Block=10.27.0.0/24", "Age"}; !slices.Equal(narrow, want) {
		n.t.Errorf("kubectl get shows %q, want %q", narrow, want)
	}
	if want := []string{"Runtime=rt-test", "Blocks=" + all}; !slices.Equal(wide, want) {
		n.t.Errorf("-o wide adds %q, want %q", wide, want)
	}
}

// noConflicts waits for a comparison of the ranges after which nothing is held twice.
func (n *networked) noConflicts() {
	n.t.Helper()
	w := n.work(daemon.Options{})
	n.shows(w, "hap_network_conflicts", "0")
}

// another is a ClusterConfig of another allocator, and a request that comes after it.
func (n *networked) another() {
	n.t.Helper()
	theirs := object("gardener.clusters.openmcp.cloud/v1alpha1", "ClusterConfig", "theirs--ipam--rule", map[string]any{
		"patches": []any{map[string]any{"op": "add", "path": "/spec/network/cidr", "value": "10.27.1.0/28"}},
	})
	theirs.SetLabels(map[string]string{"openmcp.cloud/managed-by": "somebody", "openmcp.cloud/managed-purpose": "gardener-ipam"})
	n.make(clusterConfigsResource, "clusters", theirs)
	ranges := blocks.New(sources(n.t, n.stack, n.js, n.subjects).Counters)
	eventually(n.ctx, n.t, func() error {
		state, err := ranges.State(n.ctx)
		if err == nil && (len(state.Foreign) != 1 || state.Foreign[0].String() != "10.27.1.0/28") {
			err = fmt.Errorf("blocks of others are %v", state.Foreign)
		}
		return err
	})
	mcp := cluster("rt-mcp", "ga-1", []string{"mcp"}, nil)
	n.provision(mcp)
	if got := n.given(mcp); got["/spec/network/cidr"] != "10.27.1.16/28" {
		n.t.Errorf("beside another allocator's block the mcp cluster has %v", got)
	}
	if is := n.patches("rt-mcp--ipam--mcp-clusters", "/spec/network/cidr=10.27.1.16/28"); len(is.GetOwnerReferences()) > 0 {
		n.t.Errorf("without a Cluster the owners are %v", is.GetOwnerReferences())
	}
}

// TestClusterConfigsRecover is Redis and the ledger, both lost: what stands beside them
// says who has which blocks, be it the ClusterConfigs or the annotation alone.
func TestClusterConfigsRecover(t *testing.T) {
	t.Parallel()
	n := newNoted(t, twoRules)
	w := n.work(daemon.Options{})
	n.makeCluster("rt-test")
	mcp := cluster("rt-mcp", "ga-1", []string{"mcp"}, nil)
	test := cluster("rt-test", "ga-1", nil, testCluster)
	n.provision(mcp)
	before := n.given(mcp)
	n.provision(test)
	n.given(test)
	answered := n.answered(test).Network
	n.patches("rt-mcp--ipam--mcp-clusters", "/spec/network/cidr=10.27.0.0/28")
	n.patches("rt-test--ipam--test", "/spec/network/subnetA=10.27.1.0/24", "/spec/network/subnetB=10.27.1.0/30")
	n.annotated("rt-test", `{"test":{"/spec/network/subnetA":"10.27.1.0/24","/spec/network/subnetB":"10.27.1.0/30"}}`)

	if err := w.end(); err != nil {
		t.Fatal(err)
	}
	n.loseAll()
	w = n.work(daemon.Options{})
	next := cluster("rt-next", "ga-1", []string{"mcp"}, nil)
	n.provision(next)
	if got := n.given(next); got["/spec/network/cidr"] != "10.27.0.16/28" {
		t.Errorf("after Redis and ledger are lost, the next mcp cluster has %v", got)
	}
	mcp.ID, test.ID = "again-mcp", "again-test"
	n.provision(mcp, test)
	if got := n.given(mcp); !reflect.DeepEqual(got, before) {
		t.Errorf("asked again the mcp cluster has %v, want %v", got, before)
	}
	if got := n.answered(test).Network; !reflect.DeepEqual(got, answered) {
		t.Errorf("asked again the test cluster has %+v, want %+v", got, answered)
	}

	if err := w.end(); err != nil {
		t.Fatal(err)
	}
	if err := n.api.Resource(clusterConfigsResource).Namespace("clusters").Delete(n.ctx, "rt-test--ipam--test", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	n.loseAll()
	n.work(daemon.Options{})
	second := cluster("rt-second", "ga-1", nil, testCluster)
	n.provision(second)
	if got := n.given(second); got["/spec/network/subnetA"] != "10.27.2.0/24" {
		t.Errorf("with the annotation alone, the next test cluster has %v", got)
	}
	for _, id := range []string{"rt-test", "rt-mcp", "rt-next", "rt-second"} {
		n.left(goes(id, "ga-1"))
	}
	n.awaitSettled()
	for _, name := range []string{"rt-mcp--ipam--mcp-clusters", "rt-next--ipam--mcp-clusters", "rt-second--ipam--test"} {
		n.disappears(name)
	}
	state, err := blocks.New(sources(t, n.stack, n.js, n.subjects).Counters).State(n.ctx)
	if err != nil || len(state.Records)+len(state.Foreign) != 0 {
		t.Errorf("after every cluster is gone: %+v, %v", state, err)
	}
}

// loseAll is Redis and all streams lost.
func (n *networked) loseAll() {
	n.t.Helper()
	if err := n.stack.Redis.Lose(n.ctx); err != nil {
		n.t.Fatal(err)
	}
	for _, name := range []string{events.StreamEvents, events.StreamReplies, events.StreamWaiting, events.StreamDead} {
		if err := n.js.DeleteStream(n.ctx, name); err != nil {
			n.t.Fatal(err)
		}
	}
}

// TestClusterConfigsOutage is the cluster with the ClusterConfigs away: answers come
// all the same, and what is to be written follows.
func TestClusterConfigsOutage(t *testing.T) {
	t.Parallel()
	n := newNoted(t, twoRules)
	proxy, env := n.faultyAPI()
	for _, e := range env {
		if path, ok := strings.CutPrefix(e, "HAP_GARDENER_KUBECONFIG="); ok {
			n.work(daemon.Options{Env: []string{"HAP_NETWORK_KUBECONFIG=" + path}})
		}
	}
	first, second := cluster("rt-1", "ga-1", []string{"mcp"}, nil), cluster("rt-2", "ga-1", []string{"mcp"}, nil)
	n.provision(first)
	n.given(first)
	n.patches("rt-1--ipam--mcp-clusters", "/spec/network/cidr=10.27.0.0/28")

	proxy.Down()
	n.provision(second)
	n.given(second)
	n.left(goes("rt-1", "ga-1"))
	if _, err := n.config("rt-2--ipam--mcp-clusters"); !apierrors.IsNotFound(err) {
		t.Errorf("the ClusterConfig in an outage: %v", err)
	}
	if err := proxy.Up(); err != nil {
		t.Fatal(err)
	}
	n.patches("rt-2--ipam--mcp-clusters", "/spec/network/cidr=10.27.0.16/28")
	n.disappears("rt-1--ipam--mcp-clusters")
}
