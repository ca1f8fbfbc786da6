package main

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/integration/bench/publishing"
	"github.com/hap-worker/hap-worker/integration/stack"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

// seeders is the number of Shoots that are created concurrently.
const seeders = 16

var (
	shoots      = schema.GroupVersionResource{Group: "core.gardener.cloud", Version: "v1beta1", Resource: "shoots"}
	ipamConfigs = schema.GroupVersionResource{Group: "gardener.clusters.openmcp.cloud", Version: "v1alpha1", Resource: "ipamconfigs"}
	configMaps  = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
)

// types are the hyperscaler types of the accounts, in turn.
var types = []string{"aws", "azure", "gcp", "alicloud", "openstack_eu-de-1"}

// runtime is one cluster. The clusters are spread evenly over the accounts.
type runtime struct {
	id, binding, kind, tenant, shoot string
	number                           int
}

func (s settings) runtime(n int) runtime {
	account := n % s.bindings
	return runtime{
		id: fmt.Sprintf("8b2c6b4e-0f52-4c79-a9b1-%012d", n), number: n,
		binding: accountName(account), kind: types[account%len(types)], tenant: tenant(account),
		shoot: fmt.Sprintf("c-%07d", n),
	}
}

func accountName(n int) string { return fmt.Sprintf("hyperscaler-account-%05d", n) }

func tenant(n int) string { return fmt.Sprintf("2f5011af-2fd3-44ba-ac60-%012d", n) }

// seed fills the Kubernetes API and the ledger.
func seed(ctx context.Context, s *stack.Stack, o settings) error {
	config, err := s.Kube.Config()
	if err != nil {
		return err
	}
	all := make([]stack.Account, o.bindings)
	for n := range all {
		all[n] = stack.Account{Name: accountName(n), HyperscalerType: types[n%len(types)]}
		if n < o.runtimes { // the others are free
			all[n].Labels = map[string]string{"tenantName": tenant(n)}
		}
	}
	if err := stack.CreateAccounts(ctx, config, s.Target, all); err != nil {
		return err
	}
	api, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	if err := settle(ctx, api); err != nil {
		return err
	}
	if err := fillLedger(ctx, s, o); err != nil {
		return err
	}
	group, grouped := errgroup.WithContext(ctx)
	group.SetLimit(seeders)
	for n := range o.runtimes {
		if grouped.Err() != nil {
			break
		}
		group.Go(func() error {
			_, err := api.Resource(shoots).Namespace(s.Target.Namespace).Create(grouped, shoot(o, o.runtime(n)), metav1.CreateOptions{})
			return err
		})
	}
	return group.Wait()
}

// settle creates the objects of the other watches: the policy and the network ranges.
func settle(ctx context.Context, api dynamic.Interface) error {
	policy := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"policy.yaml": "apiVersion: 0.1.0\nrules: {}\n"}}}
	policy.SetAPIVersion("v1")
	policy.SetKind("ConfigMap")
	policy.SetName("hap-policy")
	if _, err := api.Resource(configMaps).Namespace("default").Create(ctx, policy, metav1.CreateOptions{}); err != nil {
		return err
	}
	ranges := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"parentCIDRs": map[string]any{"all": []any{"10.0.0.0/8", "11.0.0.0/8"}}}}}
	ranges.SetAPIVersion("gardener.clusters.openmcp.cloud/v1alpha1")
	ranges.SetKind("IPAMConfig")
	ranges.SetName("ipam")
	_, err := api.Resource(ipamConfigs).Create(ctx, ranges, metav1.CreateOptions{})
	return err
}

// shoot returns a Shoot whose manifest is somewhat larger than o.shootBytes.
func shoot(o settings, r runtime) *unstructured.Unstructured {
	field := "credentialsBindingName"
	if o.resource != "credentialsbindings" {
		field = "secretBindingName"
	}
	s := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		field: r.binding, "region": "eu-central-1", "purpose": strings.Repeat("x", o.shootBytes),
	}}}
	s.SetAPIVersion("core.gardener.cloud/v1beta1")
	s.SetKind("Shoot")
	s.SetName(r.shoot)
	s.SetLabels(map[string]string{"account": r.tenant})
	s.SetAnnotations(map[string]string{"infrastructuremanager.kyma-project.io/runtime-id": r.id})
	return s
}

// fillLedger stores the reply to a provision of every runtime, like a worker.
func fillLedger(ctx context.Context, s *stack.Stack, o settings) error {
	nc, err := nats.Connect(s.NATS.URL())
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := publishing.New(nc, 4000)
	if err != nil {
		return err
	}
	if _, err := storage.Setup(ctx, js, storage.Options{Manage: true, MaxAckPending: 1024, AckWait: 30 * time.Second}); err != nil {
		return err
	}
	subjects, err := events.NewSubjects("")
	if err != nil {
		return err
	}
	for n := range o.runtimes {
		r := o.runtime(n)
		reply := answer(r, n/o.bindings, s.Target.Namespace)
		if o.blocks {
			reply.Cluster = &events.Cluster{Name: r.shoot, Namespace: "clusters", Purposes: []string{"mcp"}, Labels: map[string]string{"landscape": "live"}}
			reply.Network = []events.Network{block("nodes", 10, n), block("pods", 11, n)}
		}
		data, err := events.EncodeReply(reply, "/hap-worker")
		if err != nil {
			return err
		}
		if _, err := js.PublishAsync(subjects.Reply(r.id, reply.RequestID), data, jetstream.WithExpectLastSequencePerSubject(0), jetstream.WithStallWait(time.Minute)); err != nil {
			return err
		}
	}
	return js.Published(ctx)
}

// block returns the nth block of 16 addresses of those that begin with first, of which there are 2^20.
func block(rule string, first byte, n int) events.Network {
	address := netip.AddrFrom4([4]byte{first, byte(n >> 12), byte(n >> 4), byte(n << 4)})
	return events.Network{Rule: rule, ID: rule, CIDR: netip.PrefixFrom(address, 28).String(), Paths: []string{"/spec/networking/" + rule}}
}

// answer returns the reply to the provision of a runtime; before is the number of clusters that its account had
// before.
func answer(r runtime, before int, namespace string) events.Reply {
	count := before + 1
	return events.Reply{
		RequestID: fmt.Sprintf("5d0a9f37-6c1e-4b82-8f4d-%012d", r.number), RuntimeID: r.id, Status: events.StatusAssigned,
		GlobalAccountID: r.tenant, Plan: "aws", Provider: "aws", ShootName: r.shoot,
		Binding:  &events.Binding{Name: r.binding, Namespace: namespace, Kind: "CredentialsBinding", HyperscalerType: r.kind, Claimed: before == 0},
		Clusters: &count, Limit: 180,
		Decision: &events.Decision{
			Sequence: int64(r.number + 1), Rule: r.kind, RuleNumber: 1, Pool: r.kind,
			LabelSelector: "hyperscalerType=" + r.kind + ",!euAccess,shared!=true,!dirty,!internal,tenantName=" + r.tenant,
			Considered:    []events.Considered{{Binding: r.binding, Clusters: before, Verdict: "chosen"}},
		},
		ShootPatch: []events.PatchOperation{{Op: "add", Path: "/spec/credentialsBindingName", Value: r.binding}},
	}
}
