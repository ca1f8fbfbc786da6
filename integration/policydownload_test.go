package integration_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/hap-worker/hap-worker/cmd/hapctl/app"
	"github.com/hap-worker/hap-worker/integration/stack"
)

// downloadStep has what a runner needs of a template of a rendered workflow.
type downloadStep struct {
	Name      string
	Container struct {
		Command, Args []string
		VolumeMounts  []struct{ Name, MountPath string }
	}
	Volumes []struct {
		Name   string
		Secret struct{ SecretName string }
	}
	Outputs struct {
		Artifacts []struct{ GlobalName, Path string }
	}
}

// TestPolicyDownload runs the first step of a rendered workflow as a runner on the
// development stack would: the Secret that it mounts is read from the Kubernetes API,
// and its artifact is the value of the TypeInstance.
func TestPolicyDownload(t *testing.T) {
	t.Parallel()
	root, err := stack.Root()
	if err != nil {
		t.Fatal(err)
	}
	examples := filepath.Join(root, "deploy", "policy")
	instances := filepath.Join(examples, "typeinstances.yaml")
	var out, talk bytes.Buffer
	code := app.Run(t.Context(), []string{
		"policy", "render", "--policy", filepath.Join(examples, "policy.yaml"), "--catalog", filepath.Join(examples, "catalog"),
		"--type-instances", instances, "--interface", postgres, "-o", "json",
	}, nil, &out, &talk)
	if code != 0 {
		t.Fatalf("render ends with %d: %s", code, &talk)
	}
	var workflow struct {
		Spec struct {
			Entrypoint string
			Templates  []struct {
				downloadStep
				Steps [][]struct{ Template string }
			}
		}
	}
	if err := json.Unmarshal(out.Bytes(), &workflow); err != nil {
		t.Fatal(err)
	}
	named := func(name string) int {
		for i, template := range workflow.Spec.Templates {
			if template.Name == name {
				return i
			}
		}
		t.Fatalf("no template is called %s", name)
		return 0
	}
	entry := workflow.Spec.Templates[named(workflow.Spec.Entrypoint)]
	step := workflow.Spec.Templates[named(entry.Steps[0][0].Template)].downloadStep
	runStep(t, step, instances)
	if len(step.Outputs.Artifacts) != 1 || step.Outputs.Artifacts[0].GlobalName != "gcp-sa" {
		t.Errorf("artifacts %+v", step.Outputs.Artifacts)
	}
}

// runStep puts the step's Secret into the cluster, mounts it and runs its command.
func runStep(t *testing.T, step downloadStep, instances string) {
	t.Helper()
	s := sharedStack(t)
	config, err := s.Kube.Config()
	if err != nil {
		t.Fatal(err)
	}
	api, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(instances)
	if err != nil {
		t.Fatal(err)
	}
	secrets := api.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace("default")
	var paths []string
	for _, mount := range step.Container.VolumeMounts {
		dir := t.TempDir()
		paths = append(paths, mount.MountPath, dir)
		at := slices.IndexFunc(step.Volumes, func(v struct {
			Name   string
			Secret struct{ SecretName string }
		}) bool {
			return v.Name == mount.Name
		})
		if at < 0 || step.Volumes[at].Secret.SecretName == "" {
			continue
		}
		name := step.Volumes[at].Secret.SecretName
		o := &unstructured.Unstructured{Object: map[string]any{"stringData": map[string]any{"typeinstances.yaml": string(content)}}}
		o.SetAPIVersion("v1")
		o.SetKind("Secret")
		o.SetName(name)
		if _, err := secrets.Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = secrets.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{}) })
		read, err := secrets.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		data, _, err := unstructured.NestedStringMap(read.Object, "data")
		if err != nil {
			t.Fatal(err)
		}
		for key, value := range data {
			text, err := base64.StdEncoding.DecodeString(value)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, key), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	mounted := strings.NewReplacer(paths...)
	command := slices.Concat(step.Container.Command, step.Container.Args)
	args := make([]string, 0, len(command))
	for _, arg := range command[1:] {
		args = append(args, mounted.Replace(arg))
	}
	var out, talk bytes.Buffer
	if code := app.Run(t.Context(), args, nil, &out, &talk); code != 0 {
		t.Fatalf("%v ends with %d: %s", command, code, &talk)
	}
	for _, artifact := range step.Outputs.Artifacts {
		value, err := os.ReadFile(mounted.Replace(artifact.Path))
		if err != nil || !strings.Contains(string(value), "example-project") {
			t.Errorf("artifact %s is %q, %v", artifact.GlobalName, value, err)
		}
	}
}
