package ranges

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/hap-worker/hap-worker/events"
)

// mostBytes is the most that an answer may occupy in memory: a landscape of a million clusters has as many.
const mostBytes = 700

// What is kept of a ledger does not grow with all that its answers say.
func TestAnswersAreSmall(t *testing.T) {
	const n = 10_000
	read := func(i int) events.Stored {
		r := events.Reply{
			RequestID: fmt.Sprintf("3f2a1c00-0000-4000-8000-%012d", i), RuntimeID: fmt.Sprintf("7b9d2e11-0000-4000-8000-%012d", i),
			Status: events.StatusAssigned, GlobalAccountID: fmt.Sprintf("ga-%d", i%100), Plan: "aws", Provider: "aws", ShootName: fmt.Sprintf("c-%07d", i),
			Cluster: &events.Cluster{
				Name: fmt.Sprintf("c-%07d", i), Namespace: "clusters", Purposes: []string{"mcp"},
				Labels: map[string]string{"landscape": "live", "region": "eu-central-1", "size": "small"},
			},
			Binding: &events.Binding{Name: fmt.Sprintf("aws-%d", i%100), Namespace: "garden-kyma", Kind: "CredentialsBinding", HyperscalerType: "aws", Generation: 1},
			Decision: &events.Decision{
				Sequence: int64(i + 1), Pool: "aws", Rule: "aws(PR=cf-eu11) -> EU", LabelSelector: "hyperscalerType=aws,!euAccess,!shared,!dirty,tenantName=ga", Origin: "own",
				Considered: []events.Considered{{Binding: "aws-1", Clusters: 4, Verdict: "full"}, {Binding: "aws-2", Clusters: 2, Verdict: "chosen"}},
			},
			Network: []events.Network{
				{Rule: "nodes", ID: "nodes", CIDR: fmt.Sprintf("10.%d.%d.0/28", i/250%250, i%250), Paths: []string{"/spec/networking/nodes"}},
				{Rule: "pods", ID: "pods", CIDR: fmt.Sprintf("100.%d.%d.0/28", i/250%250, i%250), Paths: []string{"/spec/networking/pods"}},
			},
		}
		r.ShootPatch = append([]events.PatchOperation{{Op: "add", Path: "/spec/credentialsBindingName", Value: r.Binding.Name}}, patch(r.Network)...)
		r.ShootMergePatch = events.MergePatch(r.ShootPatch)
		data, err := events.EncodeReply(r, "hap-worker")
		if err != nil {
			t.Fatal(err)
		}
		stored, err := events.DecodeReply(data)
		if err != nil {
			t.Fatal(err)
		}
		return events.Stored{Reply: stored, Sequence: uint64(i + 1)}
	}
	in := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	a, before := newAnswers(), in()
	for i := range n {
		a.Take(read(i))
	}
	if each := (in() - before) / n; each > mostBytes {
		t.Errorf("an answer occupies %d bytes, more than %d", each, mostBytes)
	}
	live := 0
	for range a.eachLive() {
		live++
	}
	if live != n {
		t.Errorf("%d are live", live)
	}
}
