package policy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/hap-worker/hap-worker/cmd/hapctl/app"
	"github.com/hap-worker/hap-worker/engine/policy"
)

const examples = "../../../deploy/policy/"

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"hapctl": func() { os.Exit(app.Run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
	})
}

// everything is a policy that injects each TypeInstance of the example wherever it is required.
const everything = `apiVersion: 0.1.0
rules:
  cap.*:
    oneOf:
      - implementationConstraints: {path: cap.implementation.NAME}
        injectTypeInstances:
          - {id: 9038dcdc-e959-41c4-a690-d8ebf929ac0c, typeRef: {path: cap.type.gcp.auth.service-account}}
          - {id: 5d2c4b1e-3f0a-4c59-9d0e-0a2f6f1f7c11, typeRef: {path: cap.type.aws.auth.credentials}}
          - {id: 1b7a1a54-2f53-4a39-8d29-6f5f3c1f9a02, typeRef: {path: cap.type.helm.repository}}
`

// rendered maps implementations of the example catalog to their interfaces, one for each form of entrypoint:
// steps, a graph, a container.
var rendered = map[string]string{
	"gcp.cloudsql.postgresql.install": "cap.interface.database.postgresql.install",
	"aws.rds.postgresql.install":      "cap.interface.database.postgresql.install",
	"bitnami.postgresql.install":      "cap.interface.database.postgresql.install",
	"gcp.memorystore.redis.install":   "cap.interface.database.redis.install",
	"aws.elasticache.redis.install":   "cap.interface.database.redis.install",
	"bitnami.redis.install":           "cap.interface.database.redis.install",
	"gcp.storage.bucket.create":       "cap.interface.storage.bucket.create",
	"aws.s3.bucket.create":            "cap.interface.storage.bucket.create",
	"nats.queue.install":              "cap.interface.messaging.queue.install",
}

type argoStep struct {
	Name, Template, Depends string
	Dependencies            []string
}

type argoTemplate struct {
	Name      string
	Steps     [][]argoStep
	DAG       struct{ Tasks []argoStep }
	Container struct {
		Command, Args []string
		VolumeMounts  []struct{ Name, MountPath string }
	}
	Volumes []struct {
		Name   string
		Secret struct{ SecretName string }
	}
	Outputs struct {
		Artifacts []struct{ Name, GlobalName, Path string }
	}
}

type argoWorkflow struct {
	Spec struct {
		Entrypoint string
		Templates  []argoTemplate
	}
}

func (w *argoWorkflow) template(t *testing.T, name string) argoTemplate {
	t.Helper()
	i := slices.IndexFunc(w.Spec.Templates, func(a argoTemplate) bool { return a.Name == name })
	if i < 0 {
		t.Fatalf("there is no template %q", name)
	}
	return w.Spec.Templates[i]
}

// first returns the template of the entrypoint's first step, on which everything else in it depends.
func (w *argoWorkflow) first(t *testing.T) argoTemplate {
	t.Helper()
	entry := w.template(t, w.Spec.Entrypoint)
	if len(entry.Steps) > 0 {
		if len(entry.Steps[0]) != 1 {
			t.Fatalf("%d steps run first", len(entry.Steps[0]))
		}
		return w.template(t, entry.Steps[0][0].Template)
	}
	for _, task := range entry.DAG.Tasks[1:] {
		if len(task.Dependencies) == 0 && task.Depends == "" {
			t.Errorf("task %s waits for nothing", task.Name)
		}
	}
	return w.template(t, entry.DAG.Tasks[0].Template)
}

func render(t *testing.T, name string) []byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(everything, "NAME", name)), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, talk bytes.Buffer
	code := app.Run(t.Context(), []string{
		"policy", "render", "--policy", file, "--catalog", examples + "catalog",
		"--type-instances", examples + "typeinstances.yaml", "--interface", rendered[name], "-o", "json",
	}, nil, &out, &talk)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, &talk)
	}
	return out.Bytes()
}

func argoSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	schema, err := jsonschema.NewCompiler().Compile("testdata/argo-workflow.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// TestRenderedWorkflowsAreArgos: each workflow is valid by a strict schema, and the schema rejects an invalid
// one.
func TestRenderedWorkflowsAreArgos(t *testing.T) {
	t.Parallel()
	schema := argoSchema(t)
	for name := range rendered {
		text := render(t, name)
		if err := validate(schema, text); err != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
		for _, broken := range [][2]string{
			{`"entrypoint"`, `"entryPoint"`}, {`"globalName"`, `"global"`}, {`"command"`, `"comand"`},
			{`"secretName"`, `"name"`}, {`argoproj.io/v1alpha1`, `v1`}, {`"path": "/`, `"path": "`},
		} {
			other := bytes.ReplaceAll(text, []byte(broken[0]), []byte(broken[1]))
			if bytes.Equal(other, text) {
				t.Errorf("%s has no %s", name, broken[0])
			} else if validate(schema, other) == nil {
				t.Errorf("%s: the schema takes %s", name, broken[1])
			}
		}
	}
}

func validate(schema *jsonschema.Schema, text []byte) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

// TestTheFirstStepGetsTheValue runs the container of the first step as a node
// would, with its volumes in directories of the test, and reads its artifacts.
func TestTheFirstStepGetsTheValue(t *testing.T) {
	t.Parallel()
	secret, err := os.ReadFile(examples + "typeinstances.yaml")
	if err != nil {
		t.Fatal(err)
	}
	instances, err := policy.ParseTypeInstances(secret)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]policy.TypeInstance{"gcp-sa": instances[0], "aws-credentials": instances[1], "repository": instances[2]}
	for name := range rendered {
		var w argoWorkflow
		if err := json.Unmarshal(render(t, name), &w); err != nil {
			t.Fatal(err)
		}
		step := w.first(t)
		mounted := mount(t, step, secret)
		run(t, step, mounted)
		if len(step.Outputs.Artifacts) != 1 {
			t.Fatalf("%s: artifacts %+v", name, step.Outputs.Artifacts)
		}
		for _, artifact := range step.Outputs.Artifacts {
			instance, known := want[artifact.GlobalName]
			got, err := os.ReadFile(mounted.Replace(artifact.Path))
			if err != nil || !known {
				t.Fatalf("%s: artifact %+v: %v", name, artifact, err)
			}
			text, isText := instance.Value.(string)
			value, err := json.Marshal(instance.Value)
			if err != nil {
				t.Fatal(err)
			}
			if !isText {
				text = string(value) + "\n"
			}
			if string(got) != text {
				t.Errorf("%s: %s is %q, want %q", name, artifact.GlobalName, got, text)
			}
		}
	}
}

// mount creates the volumes of a template. The replacer maps paths in the container to them.
func mount(t *testing.T, template argoTemplate, secret []byte) *strings.Replacer {
	t.Helper()
	var paths []string
	for _, m := range template.Container.VolumeMounts {
		dir := t.TempDir()
		for _, v := range template.Volumes {
			if v.Name == m.Name && v.Secret.SecretName != "" {
				if err := os.WriteFile(filepath.Join(dir, policy.TypeInstancesKey), secret, 0o400); err != nil {
					t.Fatal(err)
				}
			}
		}
		paths = append(paths, m.MountPath, dir)
	}
	return strings.NewReplacer(paths...)
}

// run executes the container's command: this test's program, under the name hapctl.
func run(t *testing.T, template argoTemplate, mounted *strings.Replacer) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	program := filepath.Join(root, template.Container.Command[0])
	if err := os.Symlink(self, program); err != nil {
		t.Fatal(err)
	}
	args := slices.Clone(template.Container.Command[1:])
	for _, arg := range template.Container.Args {
		args = append(args, mounted.Replace(arg))
	}
	if out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("%s %q: %v\n%s", program, args, err, out)
	}
}
