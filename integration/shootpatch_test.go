package integration_test

import (
	"encoding/json"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"

	"github.com/hap-worker/hap-worker/events"
)

// TestShootPatches applies both patches of a reply as a publisher does: read back from the
// reply's message, by a library with no options. Only the merge patch makes the objects that
// are missing; where all are there, both lead to the same manifest.
func TestShootPatches(t *testing.T) {
	t.Parallel()
	const (
		patched  = `{"spec":{"region":"x","credentialsBindingName":"aws-1","network":{"cidr":"10.0.0.0/28"}}}`
		with     = `{"spec":{"region":"x","credentialsBindingName":"aws-1","network":{"type":"cilium","cidr":"10.0.0.0/28"}}}`
		listGone = `{"spec":{"credentialsBindingName":"aws-1","network":{"cidr":"10.0.0.0/28"}}}`
	)
	for name, c := range map[string]struct {
		manifest, patched, merged string // patched is "" where the JSON patch does not apply
	}{
		"all objects":          {`{"spec":{"region":"x","network":{}}}`, patched, patched},
		"one with members":     {`{"spec":{"region":"x","network":{"type":"cilium"}}}`, with, with},
		"values of before":     {`{"spec":{"region":"x","credentialsBindingName":"y","network":{"cidr":"z"}}}`, patched, patched},
		"no network":           {`{"spec":{"region":"x"}}`, "", patched},
		"no spec":              {`{}`, "", listGone},
		"network is a list":    {`{"spec":{"network":["a"]}}`, "", listGone},
		"network has no value": {`{"spec":{"network":null}}`, "", listGone},
	} {
		r := reply(t,
			events.PatchOperation{Op: "add", Path: "/spec/credentialsBindingName", Value: "aws-1"},
			events.PatchOperation{Op: "add", Path: "/spec/network/cidr", Value: "10.0.0.0/28"})
		if got, err := patchedBy(t, r, c.manifest); (err != nil) != (c.patched == "") || err == nil && !jsonpatch.Equal(got, []byte(c.patched)) {
			t.Errorf("%s: the patch makes %s, %v, want %s", name, got, err, c.patched)
		}
		if got := mergedBy(t, r, c.manifest); !jsonpatch.Equal(got, []byte(c.merged)) {
			t.Errorf("%s: the merge patch makes %s, want %s", name, got, c.merged)
		}
	}
}

// A position in a list is beyond a merge patch, which would replace the list as a whole.
func TestShootPatchIntoAList(t *testing.T) {
	t.Parallel()
	r := reply(t, events.PatchOperation{Op: "add", Path: "/spec/zones/0/cidr", Value: "10.0.0.0/28"})
	got, err := patchedBy(t, r, `{"spec":{"zones":[{"name":"a"},{"name":"b"}]}}`)
	if err != nil || !jsonpatch.Equal(got, []byte(`{"spec":{"zones":[{"name":"a","cidr":"10.0.0.0/28"},{"name":"b"}]}}`)) {
		t.Errorf("the patch makes %s, %v", got, err)
	}
	if r.ShootMergePatch != nil {
		t.Errorf("there is a merge patch, %v", r.ShootMergePatch)
	}
}

// reply is an assignment with these operations as it is read from the ledger.
func reply(t *testing.T, operations ...events.PatchOperation) events.Reply {
	t.Helper()
	data, err := events.EncodeReply(events.Reply{
		RequestID: "req-1", RuntimeID: "rt-1", Status: events.StatusAssigned,
		ShootPatch: operations, ShootMergePatch: events.MergePatch(operations),
	}, "/hap-worker")
	if err != nil {
		t.Fatal(err)
	}
	r, err := events.DecodeReply(data)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// patchedBy applies the JSON patch of a reply. The error is that of the library, which does not apply it.
func patchedBy(t *testing.T, r events.Reply, manifest string) ([]byte, error) {
	t.Helper()
	text, err := json.Marshal(r.ShootPatch)
	if err != nil {
		t.Fatal(err)
	}
	operations, err := jsonpatch.DecodePatch(text)
	if err != nil {
		t.Fatal(err)
	}
	return operations.Apply([]byte(manifest))
}

// mergedBy applies the merge patch of a reply.
func mergedBy(t *testing.T, r events.Reply, manifest string) []byte {
	t.Helper()
	text, err := json.Marshal(r.ShootMergePatch)
	if err != nil {
		t.Fatal(err)
	}
	got, err := jsonpatch.MergePatch([]byte(manifest), text)
	if err != nil {
		t.Fatal(err)
	}
	return got
}
