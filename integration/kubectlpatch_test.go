package integration_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/kubectl/pkg/cmd/patch"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"sigs.k8s.io/yaml"

	"github.com/hap-worker/hap-worker/events"
)

// TestKubectlPatches applies both patches of a reply by kubectl patch --local, as
// docs/messages.md shows. The merge patch applies to a manifest that lacks spec.network;
// the JSON patch presumes it.
func TestKubectlPatches(t *testing.T) {
	t.Parallel()
	cmdutil.BehaviorOnFatal(func(said string, _ int) { panic(errors.New(said)) })
	const (
		head    = "apiVersion: core.gardener.cloud/v1beta1\nkind: Shoot\nmetadata: {name: c-1, namespace: garden-kyma}\n"
		patched = head + "spec: {region: x, credentialsBindingName: aws-7, network: {cidr: 10.27.0.0/28}}\n"
	)
	r := reply(t,
		events.PatchOperation{Op: "add", Path: "/spec/credentialsBindingName", Value: "aws-7"},
		events.PatchOperation{Op: "add", Path: "/spec/network/cidr", Value: "10.27.0.0/28"})
	for name, c := range map[string]struct {
		kind    string
		patch   any
		spec    string
		refused string
	}{
		"json with the parents":     {"json", r.ShootPatch, "spec: {region: x, network: {}}\n", ""},
		"json without spec.network": {"json", r.ShootPatch, "spec: {region: x}\n", "doc is missing path"},
		"merge with the parents":    {"merge", r.ShootMergePatch, "spec: {region: x, network: {}}\n", ""},
		"merge without them":        {"merge", r.ShootMergePatch, "spec: {region: x}\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := kubectlPatch(t, head+c.spec, c.kind, c.patch)
			if c.refused != "" {
				if err == nil || !strings.Contains(err.Error(), c.refused) {
					t.Errorf("kubectl says %v, want %q:\n%s", err, c.refused, got.String())
				}
				return
			}
			want, wrong := yaml.YAMLToJSON([]byte(patched))
			is, unread := yaml.YAMLToJSON(got.Bytes())
			if page, err := os.ReadFile("../docs/messages.md"); err != nil || !strings.Contains(string(page), "\n    "+strings.ReplaceAll(strings.TrimSpace(got.String()), "\n", "\n    ")+"\n") {
				t.Errorf("docs/messages.md does not show what kubectl prints, %v:\n%s", err, got.String())
			}
			if err != nil || wrong != nil || unread != nil || !bytes.Equal(is, want) {
				t.Errorf("kubectl makes %s, %v; want %s", is, err, want)
			}
		})
	}
}

// kubectlPatch is kubectl patch --local -f shoot.yaml --type=KIND -o yaml -p PATCH. The error
// has what kubectl says before it ends the process.
func kubectlPatch(t *testing.T, manifest, kind string, operations any) (out *bytes.Buffer, err error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "shoot.yaml")
	text, err := json.Marshal(operations)
	if err == nil {
		err = os.WriteFile(file, []byte(manifest), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	out = &bytes.Buffer{}
	kubectl := patch.NewCmdPatch(
		cmdutil.NewFactory(genericclioptions.NewConfigFlags(false)),
		genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: out, ErrOut: out})
	kubectl.SetArgs([]string{"--local", "-f", file, "--type=" + kind, "-o", "yaml", "-p", string(text)})
	defer func() {
		if said, ended := recover().(error); ended {
			err = said
		}
	}()
	return out, kubectl.Execute()
}
