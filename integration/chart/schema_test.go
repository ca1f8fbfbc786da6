package chart_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/hap-worker/hap-worker/worker/config"
)

// TestGenerated: the schema has every key of the worker's configuration, so that a misspelt key is refused
// before anything is installed, and the comments of values.yaml; README.md has both as a table. The alerts
// and the dashboard equal the files in deploy. With UPDATE_DOCS set, as by make docs, the test writes the files.
func TestGenerated(t *testing.T) {
	t.Parallel()
	schema := map[string]any{}
	if err := json.Unmarshal(read(t, "values.schema.json"), &schema); err != nil {
		t.Fatal(err)
	}
	properties := schema["properties"].(map[string]any)
	docs := docstrings(t)
	whole := section(reflect.TypeFor[config.Config](), "", docs)["properties"].(map[string]any)
	properties["hap"] = whole["hap"]
	delete(whole, "hap")
	of := properties["config"].(map[string]any)
	of["properties"] = whole
	gardener := whole["gardener"].(map[string]any)
	gardener["required"] = []string{"namespace"}
	fields := gardener["properties"].(map[string]any)
	fields["namespace"].(map[string]any)["minLength"] = 1
	fields["resource"].(map[string]any)["enum"] = []string{config.CredentialsBindings, config.SecretBindings, config.Secrets}

	var values yaml.Node
	if err := yaml.Unmarshal(read(t, "values.yaml"), &values); err != nil {
		t.Fatal(err)
	}
	var table bytes.Buffer
	describe(t, values.Content[0], schema, "", &table)

	text, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	readme := string(read(t, "README.md"))
	before, _, found := strings.Cut(readme, "| value |")
	if !found {
		t.Fatal("README.md has no table of values")
	}
	for name, want := range map[string]string{
		"values.schema.json": string(text) + "\n",
		"README.md":          before + "| value | default | |\n|---|---|---|\n" + table.String(),
		"alerts.yaml":        string(read(t, "../../prometheus/alerts.yaml")),
		"dashboard.json":     string(read(t, "../../grafana/hap-worker.json")),
	} {
		if os.Getenv("UPDATE_DOCS") != "" {
			if err := os.WriteFile(filepath.Join(chartDir, name), []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		} else if string(read(t, name)) != want {
			t.Errorf("the chart's %s is out of date; make docs writes it anew", name)
		}
	}
}

// read returns a file of the chart.
func read(t *testing.T, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(chartDir, name))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// section returns the schema of a part of the configuration. Each key may be null, which means its default.
func section(of reflect.Type, at string, docs map[string]string) map[string]any {
	properties := map[string]any{}
	for field := range of.Fields() {
		key := field.Tag.Get("key")
		if key == "" {
			continue
		}
		path := strings.TrimPrefix(at+"."+key, ".")
		schema := leaf(field.Type, path, docs)
		schema["description"] = docs[of.Name()+"."+field.Name]
		properties[key] = schema
	}
	return map[string]any{"type": []string{"object", "null"}, "additionalProperties": false, "properties": properties}
}

// leaf returns the schema of one key, for the type that package config decodes.
func leaf(of reflect.Type, path string, docs map[string]string) map[string]any {
	types := func(names ...string) map[string]any { return map[string]any{"type": append(names, "null")} }
	with := func(schema map[string]any, key string, value any) map[string]any { schema[key] = value; return schema }
	switch of {
	case reflect.TypeFor[time.Duration]():
		return types("string", "integer")
	case reflect.TypeFor[config.URLs]():
		return with(types("string", "array"), "items", map[string]any{"type": "string"})
	case reflect.TypeFor[config.Labels]():
		labels := section(of, path, docs)
		labels["type"] = []string{"object", "string", "null"}
		labels["properties"].(map[string]any)["preset"] = types("string")
		return labels
	}
	switch of.Kind() {
	case reflect.Struct:
		return section(of, path, docs)
	case reflect.Slice:
		return with(types("array"), "items", map[string]any{"type": "string"})
	case reflect.Map:
		return with(types("object"), "additionalProperties", leaf(of.Elem(), path, docs))
	case reflect.Int64:
		return types("string", "integer")
	case reflect.Int:
		return types("integer")
	case reflect.Float64:
		return types("number")
	case reflect.Bool:
		return types("boolean")
	default:
		return types("string")
	}
}

// docstrings are the comments at the fields of package config, by type and field.
func docstrings(t *testing.T) map[string]string {
	t.Helper()
	docs := map[string]string{}
	for _, file := range []string{"config.go", "sections.go"} {
		parsed, err := parser.ParseFile(token.NewFileSet(), "../../worker/config/"+file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, is := n.(*ast.TypeSpec)
			if !is {
				return true
			}
			if of, is := spec.Type.(*ast.StructType); is {
				for _, field := range of.Fields.List {
					docs[spec.Name.Name+"."+field.Names[0].Name] = strings.Join(strings.Fields(field.Doc.Text()), " ")
				}
			}
			return true
		})
	}
	return docs
}

// describe copies the comments of values.yaml into the schema, and adds a row for each value to the table.
// The sections of the worker's configuration have a separate page.
func describe(t *testing.T, values *yaml.Node, schema map[string]any, at string, table *bytes.Buffer) {
	t.Helper()
	properties, _ := schema["properties"].(map[string]any)
	for i := 0; i < len(values.Content); i += 2 {
		key, value := values.Content[i], values.Content[i+1]
		path := strings.TrimPrefix(at+"."+key.Value, ".")
		of, known := properties[key.Value].(map[string]any)
		if !known {
			t.Errorf("the schema lacks %s", path)
			continue
		}
		comment := strings.Join(strings.Fields(strings.ReplaceAll("\n"+key.HeadComment, "\n#", " ")), " ")
		if comment != "" {
			of["description"] = comment
		}
		deeper := value.Kind == yaml.MappingNode && len(value.Content) > 0 && of["properties"] != nil && !strings.HasPrefix(path, "config.")
		if comment == "" && !deeper {
			t.Errorf("values.yaml does not say what %s is", path)
		}
		if deeper {
			describe(t, value, of, path, table)
			continue
		}
		flow(value)
		text, err := yaml.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(table, "| `%s` | `%s` | %s |\n", path, strings.TrimSpace(string(text)), strings.ReplaceAll(comment, "|", `\|`))
	}
}

// flow writes a value in one line, without comments.
func flow(n *yaml.Node) {
	n.Style, n.HeadComment, n.LineComment, n.FootComment = yaml.FlowStyle, "", "", ""
	if n.Kind == yaml.ScalarNode {
		n.Style = 0
	}
	for _, c := range n.Content {
		flow(c)
	}
}

// TestUnknownKeys misspells each key of the configuration: the schema refuses it, and names its place.
func TestUnknownKeys(t *testing.T) {
	t.Parallel()
	refused := 0
	var walk func(of reflect.Type, path []string)
	walk = func(of reflect.Type, path []string) {
		for field := range of.Fields() {
			key := field.Tag.Get("key")
			if key == "" {
				continue
			}
			if field.Type.Kind() == reflect.Struct {
				walk(field.Type, append(path, key))
				continue
			}
			wrong := key + "x"
			values := `{` + strconv.Quote(wrong) + `: 1}`
			for _, outer := range slices.Backward(path) {
				values = `{` + outer + `: ` + values + `}`
			}
			if path[0] != "hap" {
				values = "{config: " + values + "}"
			}
			if _, err := render(t, values); err == nil || !strings.Contains(err.Error(), wrong) {
				t.Errorf("%s: %v, want a word about %s", values, err, wrong)
			}
			refused++
		}
	}
	walk(reflect.TypeFor[config.Config](), nil)
	if refused < 70 {
		t.Errorf("only %d keys were tried", refused)
	}
}
