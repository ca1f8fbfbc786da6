package policy

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/hap-worker/hap-worker/engine/document"
)

// Downloader says how the step that Render adds gets its TypeInstances.
type Downloader struct {
	Image  string // has hapctl as /hapctl
	Secret string // in the workflow's namespace; its key TypeInstancesKey holds all TypeInstances
}

// TypeInstancesKey is the key of the Secret that holds TypeInstances as
// ParseTypeInstances reads them.
const TypeInstancesKey = "typeinstances.yaml"

// The name of the added step, the volumes and paths of its container, and the Workflow's constants.
const (
	stepName      = "download-type-instances"
	sourceVolume  = "hap-type-instances"
	sourceDir     = "/etc/hap/type-instances"
	outputVolume  = "hap-downloaded"
	outputDir     = "/downloaded"
	annotation    = "hap-worker/implementation"
	argoVersion   = "argoproj.io/v1alpha1"
	workflowField = "spec.action.args.workflow"
)

// artifactName matches what Argo takes as the name of an artifact.
var artifactName = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// Render returns the Argo Workflow of a decision: the workflow of the Implementation. If TypeInstances are
// injected, a first step downloads each by its id and makes it the global artifact named by its alias. The
// error is a [document.Faults] that names the Implementation's manifest.
func Render(d Decision, from Downloader) (map[string]any, error) {
	w := &workflow{of: d.Picked, from: from}
	if d.Picked.Workflow == nil {
		return nil, w.fault(workflowField, document.Missing, "is missing; %s cannot be run by Argo", d.Picked.Ref)
	}
	for _, in := range d.Inject {
		if !artifactName.MatchString(in.Name) {
			return nil, w.fault("spec.requires", document.Syntax, "the alias %q cannot name an artifact; use letters, digits, - and _", in.Name)
		}
	}
	w.manifest()
	if len(d.Inject) == 0 {
		return w.root, nil
	}
	if err := w.inject(d.Inject); err != nil {
		return nil, err
	}
	return w.root, nil
}

// workflow is a Workflow under construction.
type workflow struct {
	of   *Implementation
	from Downloader

	root, spec map[string]any
	at         string // path of spec in the Implementation's manifest
}

func (w *workflow) fault(at string, kind document.Kind, format string, args ...any) error {
	return document.Faults{{File: w.of.File, Line: w.of.Line, Path: at, Kind: kind, Message: fmt.Sprintf(format, args...)}}
}

// manifest makes a complete Workflow from that of the Implementation, which is complete or a spec alone.
func (w *workflow) manifest() {
	given := clone(w.of.Workflow).(map[string]any) //nolint:forcetypeassert // a copy has the type of what is copied
	w.root, w.at = given, workflowField+".spec"
	spec, whole := given["spec"].(map[string]any)
	if !whole {
		spec, w.root, w.at = given, map[string]any{}, workflowField
	}
	w.spec = spec
	w.root["spec"] = spec
	w.root["apiVersion"], w.root["kind"] = argoVersion, "Workflow"
	metadata, _ := w.root["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
	}
	if metadata["name"] == nil && metadata["generateName"] == nil {
		metadata["generateName"] = prefixOf(w.of.Path)
	}
	annotations, _ := metadata["annotations"].(map[string]any)
	if annotations == nil {
		annotations = map[string]any{}
	}
	annotations[annotation] = w.of.String()
	metadata["annotations"] = annotations
	w.root["metadata"] = metadata
}

// mostOfName is the maximum length in bytes of what prefixOf returns, without the hyphen. It leaves Argo room for
// what it appends to the names of Pods.
const mostOfName = 40

// prefixOf returns the generateName of the Workflow: the path of the Implementation in the form of a
// Kubernetes name, shortened, with a hyphen at the end.
func prefixOf(path string) string {
	name := strings.ToLower(strings.NewReplacer(".", "-", "_", "-").Replace(strings.TrimPrefix(path, "cap.implementation.")))
	if len(name) > mostOfName {
		name = name[:mostOfName]
	}
	return strings.Trim(name, "-") + "-"
}

func (w *workflow) inject(what []Injected) error {
	name, _ := w.spec["entrypoint"].(string)
	if name == "" {
		return w.fault(w.at+".entrypoint", document.Missing, "is missing; name the template with which the workflow begins")
	}
	templates, _ := w.spec["templates"].([]any)
	entry := find(templates, name)
	if entry == nil {
		return w.fault(w.at+".entrypoint", document.Missing, "%q is none of its templates; write the template, or the name of one", name)
	}
	download := unused(stepName, templates)
	step := map[string]any{"template": download}
	templates = append(templates, w.template(download, what))
	switch {
	case entry["steps"] != nil:
		groups, ok := entry["steps"].([]any)
		if !ok {
			return w.fault(w.at+".templates", document.Syntax, "the steps of %q are no list", name)
		}
		step["name"] = unusedStep(groups)
		entry["steps"] = append([]any{[]any{step}}, groups...)
	case entry["dag"] != nil:
		dag, _ := entry["dag"].(map[string]any)
		tasks, ok := dag["tasks"].([]any)
		if !ok {
			return w.fault(w.at+".templates", document.Syntax, "the dag of %q has no list of tasks", name)
		}
		step["name"] = unused(stepName, tasks)
		dag["tasks"] = append([]any{step}, after(tasks, step["name"])...)
	default:
		step["name"] = stepName
		outer := wrapped(unused(name+"-injected", templates), entry, step)
		w.spec["entrypoint"] = outer["name"]
		templates = append(templates, outer)
	}
	w.spec["templates"] = templates
	return nil
}

// template returns the template of the added step: hapctl writes each TypeInstance to a file named by its
// alias.
func (w *workflow) template(name string, what []Injected) map[string]any {
	args := []any{"policy", "download", "--type-instances", sourceDir + "/" + TypeInstancesKey, "--"}
	artifacts := make([]any, len(what))
	for i, in := range what {
		path := outputDir + "/" + in.Name
		args = append(args, in.ID+"="+path)
		artifacts[i] = map[string]any{"name": in.Name, "globalName": in.Name, "path": path}
	}
	return map[string]any{
		"name": name,
		"container": map[string]any{
			"image": w.from.Image, "command": []any{"/hapctl"}, "args": args,
			"volumeMounts": []any{
				map[string]any{"name": sourceVolume, "mountPath": sourceDir, "readOnly": true},
				map[string]any{"name": outputVolume, "mountPath": outputDir},
			},
		},
		"volumes": []any{
			map[string]any{"name": sourceVolume, "secret": map[string]any{"secretName": w.from.Secret}},
			map[string]any{"name": outputVolume, "emptyDir": map[string]any{"medium": "Memory"}},
		},
		"outputs": map[string]any{"artifacts": artifacts},
	}
}

// after makes the tasks that depend on no other task depend on first.
func after(tasks []any, first any) []any {
	// Argo does not take both depends and dependencies in one graph.
	expressions := slices.ContainsFunc(tasks, func(t any) bool { return field(t, "depends") != nil })
	for _, t := range tasks {
		task, ok := t.(map[string]any)
		if !ok || !blank(task["depends"]) || !blank(task["dependencies"]) {
			continue
		}
		if expressions {
			task["depends"] = first
		} else {
			task["dependencies"] = []any{first}
		}
	}
	return tasks
}

func blank(v any) bool {
	list, isList := v.([]any)
	return v == nil || v == "" || isList && len(list) == 0
}

// wrapped returns a template of two steps: the download, then the former entrypoint. It passes the workflow's
// arguments on to the entrypoint.
func wrapped(name string, entry, step map[string]any) map[string]any {
	outer := map[string]any{"name": name}
	second := map[string]any{"name": "run", "template": entry["name"]}
	inputs, arguments := map[string]any{}, map[string]any{}
	for _, kind := range []string{"parameters", "artifacts"} {
		given, _ := field(entry["inputs"], kind).([]any)
		var in, out []any
		for _, g := range given {
			declared, handed := handOn(kind, g)
			if declared != nil {
				in, out = append(in, declared), append(out, handed)
			}
		}
		if len(in) > 0 {
			inputs[kind], arguments[kind] = in, out
		}
	}
	if len(inputs) > 0 {
		outer["inputs"], second["arguments"] = inputs, arguments
	}
	outer["steps"] = []any{[]any{step}, []any{second}}
	return outer
}

// handOn returns a declaration of the input for the outer template, and the argument that passes it on. Both
// are nil if the input has no name, or is an artifact with a source.
func handOn(kind string, input any) (declared, handed map[string]any) {
	name, _ := field(input, "name").(string)
	if name == "" {
		return nil, nil
	}
	reference := "{{inputs." + kind + "." + name + "}}"
	if kind == "parameters" {
		given, _ := input.(map[string]any)
		return maps.Clone(given), map[string]any{"name": name, "value": reference}
	}
	for _, source := range []string{"raw", "http", "git", "s3", "gcs", "oss", "hdfs", "azure", "artifactory"} {
		if field(input, source) != nil {
			return nil, nil
		}
	}
	declared = map[string]any{"name": name}
	handed = map[string]any{"name": name, "from": reference}
	if field(input, "optional") == true {
		declared["optional"], handed["optional"] = true, true
	}
	return declared, handed
}

func find(templates []any, name string) map[string]any {
	for _, t := range templates {
		if template, ok := t.(map[string]any); ok && template["name"] == name {
			return template
		}
	}
	return nil
}

// unused returns name, or name with a number, so that nothing in among has it.
func unused(name string, among []any) string {
	for n, candidate := 2, name; ; n++ {
		if find(among, candidate) == nil {
			return candidate
		}
		candidate = fmt.Sprintf("%s-%d", name, n)
	}
}

func unusedStep(groups []any) string {
	var steps []any
	for _, group := range groups {
		parallel, _ := group.([]any)
		steps = append(steps, parallel...)
	}
	return unused(stepName, steps)
}

// field returns a field of a mapping, nil if v is no mapping.
func field(v any, name string) any {
	m, _ := v.(map[string]any)
	return m[name]
}

// clone copies a JSON value deeply, so that the catalog's value stays unchanged.
func clone(v any) any {
	switch v := v.(type) {
	case map[string]any:
		m := make(map[string]any, len(v))
		for key := range v {
			m[key] = clone(v[key])
		}
		return m
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = clone(v[i])
		}
		return list
	}
	return v
}
