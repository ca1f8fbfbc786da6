package ranges

import (
	"cmp"
	"fmt"
	"runtime"
	"testing"

	"pgregory.net/rapid"

	"github.com/hap-worker/hap-worker/events"
)

// Answers come back as the ledger has them, whatever they have in common.
func TestAnswersComeBack(t *testing.T) {
	t.Parallel()
	text := rapid.SampledFrom([]string{"", "a", "b", "nodes", "7b9d2e11-0000-4000-8000-000000000001"})
	texts := rapid.SliceOfN(text, 0, 2)
	blocks := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) events.Network {
		return events.Network{
			Rule: text.Draw(t, "rule"), ID: text.Draw(t, "id"), Paths: texts.Draw(t, "paths"),
			CIDR: rapid.SampledFrom([]string{"10.0.0.0/8", "10.1.2.0/28", "fd00::/64", "none"}).Draw(t, "cidr"),
		}
	}), 0, 3)
	rapid.Check(t, func(t *rapid.T) {
		a, want := newAnswers(), map[string][]answer{}
		for i := range rapid.IntRange(1, 5).Draw(t, "replies") {
			r := events.Reply{
				RequestID: text.Draw(t, "request"), RuntimeID: rapid.SampledFrom([]string{"rt-1", "rt-2"}).Draw(t, "runtime"), Status: events.StatusAssigned,
				ShootName: text.Draw(t, "shoot"), Network: blocks.Draw(t, "blocks"), Decision: &events.Decision{Sequence: int64(i + 1)},
			}
			if rapid.Bool().Draw(t, "described") {
				r.Cluster = &events.Cluster{
					Name: text.Draw(t, "name"), Namespace: text.Draw(t, "namespace"), Purposes: texts.Draw(t, "purposes"),
					Labels: rapid.MapOfN(text, text, 0, 2).Draw(t, "labels"),
				}
			}
			a.Take(events.Stored{Reply: r, Sequence: uint64(i + 1)})
			want[r.RuntimeID] = append(want[r.RuntimeID], answerOf(r))
		}
		for runtime, answers := range want {
			if got := a.of(runtime); fmt.Sprintf("%+v", printed(got)) != fmt.Sprintf("%+v", printed(answers)) {
				t.Fatalf("%s has\n%+v\nwant\n%+v", runtime, printed(got), printed(answers))
			}
		}
	})
}

// printed returns the answers without pointers.
func printed(answers []answer) (all []any) {
	for _, a := range answers {
		cluster := cmp.Or(a.cluster, &events.Cluster{Name: "none"})
		a.cluster = nil
		all = append(all, a, *cluster)
	}
	return all
}

// mostBytes is the most that an answer may occupy in memory: a landscape of a million clusters has as many.
const mostBytes = 350

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
