package integration_test

import (
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/hap-worker/hap-worker/integration/stack"
)

// grants are all rights that an installation grants: what deploy has for Kubernetes,
// NATS and Redis.
type grants struct {
	manifests []*unstructured.Unstructured // the chart's rights and its service account
	nats      string                       // deploy/nats/permissions.conf
	redis     string                       // deploy/redis/users.acl
}

// right is one of them, and how it is taken away.
type right struct {
	name string
	drop func(*grants)
}

// readGrants renders the chart and reads the files of deploy for a life: its name is
// that of the release, of the namespace and of the prefix in Redis.
func readGrants(name, resource string) (*grants, error) {
	root, err := stack.Root()
	if err != nil {
		return nil, err
	}
	g := &grants{}
	for file, into := range map[string]*string{"nats/permissions.conf": &g.nats, "redis/users.acl": &g.redis} {
		content, err := os.ReadFile(filepath.Join(root, "deploy", filepath.FromSlash(file)))
		if err != nil {
			return nil, err
		}
		*into = string(content)
	}
	g.manifests, err = renderRights(filepath.Join(root, "deploy", "helm", "hap-worker"), name, resource)
	return g, err
}

// renderRights returns what the chart makes of rights and service account, with policy
// and network ranges on.
func renderRights(dir, name, resource string) (objects []*unstructured.Unstructured, err error) {
	chart, err := loader.Load(dir)
	if err != nil {
		return nil, err
	}
	values := map[string]any{}
	text := fmt.Sprintf("{rights: {create: true}, plainConnections: {nats: true, redis: true}, policy: {enabled: true}, network: {enabled: true, config: %s}, config: {gardener: {namespace: %s, resource: %s}}}", name, name, resource)
	if err := yaml.Unmarshal([]byte(text), &values); err != nil {
		return nil, err
	}
	full, err := chartutil.ToRenderValues(chart, values, chartutil.ReleaseOptions{Name: name, Namespace: name, IsInstall: true}, nil)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(chart, full)
	if err != nil {
		return nil, err
	}
	for _, file := range slices.Sorted(maps.Keys(files)) {
		if base := path.Base(file); base != "rights.yaml" && base != "serviceaccount.yaml" {
			continue
		}
		for document := range strings.SplitSeq(files[file], "\n---\n") {
			object := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
				return nil, err
			}
			if len(object.Object) > 0 {
				objects = append(objects, object)
			}
		}
	}
	return objects, nil
}

// kubernetesRights are every verb of every rule.
func (g *grants) kubernetesRights() (all []right) {
	for at, object := range g.manifests {
		rules, _, _ := unstructured.NestedSlice(object.Object, "rules")
		for n, rule := range rules {
			rule, _ := rule.(map[string]any)
			resources, _, _ := unstructured.NestedStringSlice(rule, "resources")
			verbs, _, _ := unstructured.NestedStringSlice(rule, "verbs")
			for _, verb := range verbs {
				all = append(all, right{
					name: fmt.Sprintf("Kubernetes: %s %s", verb, strings.Join(resources, ",")),
					drop: func(g *grants) { dropVerb(g.manifests[at], n, verb) },
				})
			}
		}
	}
	return all
}

func dropVerb(object *unstructured.Unstructured, at int, verb string) {
	rules, _, _ := unstructured.NestedSlice(object.Object, "rules")
	rule, _ := rules[at].(map[string]any)
	verbs, _, _ := unstructured.NestedStringSlice(rule, "verbs")
	left := slices.DeleteFunc(verbs, func(v string) bool { return v == verb })
	if len(left) == 0 { // a rule needs a verb
		left = []string{"none"}
	}
	_ = unstructured.SetNestedStringSlice(rule, left, "verbs")
	_ = unstructured.SetNestedSlice(object.Object, rules, "rules")
}

var (
	roleLine    = regexp.MustCompile(`^HAP_(\w+) = \{`)
	quotedRight = regexp.MustCompile(`"([^"]+)"`)
)

// natsRights are every subject that a role may publish on or listen to.
func (g *grants) natsRights() (all []right) {
	role, lines := "", strings.Split(g.nats, "\n")
	for at, line := range lines {
		if strings.HasPrefix(line, "#") {
			continue
		}
		if found := roleLine.FindStringSubmatch(line); found != nil {
			role = found[1]
		}
		for _, found := range quotedRight.FindAllStringSubmatch(line, -1) {
			// An empty list would be the right to everything.
			reduced := strings.Replace(line, found[0], `"nothing.of.this.kind"`, 1)
			all = append(all, right{
				name: fmt.Sprintf("NATS %s: %s", strings.ToLower(role), strings.TrimSpace(strings.Replace(strings.TrimSpace(line), ",", "", 1))),
				drop: func(g *grants) {
					lines := strings.Split(g.nats, "\n")
					lines[at] = reduced
					g.nats = strings.Join(lines, "\n")
				},
			})
		}
	}
	return all
}

// redisRights are every command and key pattern of a user.
func (g *grants) redisRights(user string) (all []right) {
	lines := strings.Split(g.redis, "\n")
	for at, line := range lines {
		if !strings.HasPrefix(line, "user "+user+" ") {
			continue
		}
		for word := range strings.FieldsSeq(line) {
			if word[0] != '+' && word[0] != '~' {
				continue
			}
			all = append(all, right{
				name: "Redis " + user + ": " + word,
				drop: func(g *grants) {
					lines := strings.Split(g.redis, "\n")
					lines[at] = strings.ReplaceAll(lines[at]+" ", " "+word+" ", " ")
					g.redis = strings.Join(lines, "\n")
				},
			})
		}
	}
	return all
}
