package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/v2"
	"go.yaml.in/yaml/v3"

	"github.com/hap-worker/hap-worker/worker/filewatch"
)

// Load reads the file at path, puts the HAP_ variables of env (as os.Environ
// gives it) above it and the defaults below, and checks the whole. Without a
// path there are only environment and defaults.
//
// A file that cannot be used, for whatever reason, is an [Invalid].
func Load(path string, env []string) (*Config, error) {
	if path == "" {
		return parse("", nil, env)
	}
	sum := filewatch.Sum(path) // first: Watch finds a change meanwhile
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, &Invalid{Faults: []Fault{{Message: "cannot read the configuration: " + err.Error()}}, cause: err}
	}
	c, err := parse(path, content, env)
	if err == nil {
		c.sum = sum
	}
	return c, err
}

func parse(path string, content []byte, env []string) (*Config, error) {
	var wrong faults
	from := sources{lines: map[string]int{}, variables: map[string]string{}}
	file := map[string]any{}
	if path != "" {
		file = readYAML(content, from.lines, &wrong)
	}
	overrides := readEnv(env, from.variables, &wrong)
	merged := koanf.New(".")
	for _, layer := range []map[string]any{file, overrides.values} {
		if err := merged.Load(confmap.Provider(layer, ""), nil); err != nil {
			return nil, fmt.Errorf("configuration: %w", err)
		}
	}
	c := decode(merged.Raw(), &wrong)
	c.warnings, c.env = overrides.warnings, slices.Clone(env)
	c.check(&wrong)
	if err := wrong.err(path, from); err != nil {
		return nil, err
	}
	c.warn()
	return c, nil
}

// Given reports whether the section has any key in the file or the environment.
func (c *Config) Given(section string) bool { return c.present[section] }

// readYAML gives the one document of content, and the line of every key.
func readYAML(content []byte, lines map[string]int, wrong *faults) map[string]any {
	var document, second yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	err := decoder.Decode(&document)
	if errors.Is(err, io.EOF) {
		wrong.add("", "the file is empty: to run on defaults alone, start without a file")
		return nil
	}
	if err == nil {
		if err = decoder.Decode(&second); errors.Is(err, io.EOF) {
			err = nil
		} else if err == nil {
			wrong.list = append(wrong.list, Fault{Line: second.Line, Message: "a second YAML document: only one is read"})
		}
	}
	if err != nil {
		wrong.add("", "%s", err)
		return nil
	}
	root := document.Content[0]
	if root.Kind != yaml.MappingNode {
		wrong.list = append(wrong.list, Fault{Line: root.Line, Message: "must be a mapping with the sections hap, nats, redis and so on"})
		return nil
	}
	index("", root, lines, wrong)
	values := map[string]any{}
	if err := document.Decode(&values); err != nil {
		wrong.add("", "%s", err)
	}
	return values
}

// index notes the lines of all keys below node. A key that is there twice is a
// fault, and its second value is taken out, so that the rest can be checked.
func index(path string, node *yaml.Node, lines map[string]int, wrong *faults) {
	switch node.Kind {
	case yaml.MappingNode:
		kept := node.Content[:0]
		seen := map[string]bool{}
		for i := 0; i+1 < len(node.Content); i += 2 {
			key, value := node.Content[i], node.Content[i+1]
			at := join(path, key.Value)
			if seen[key.Value] {
				wrong.list = append(wrong.list, Fault{Path: at, Line: key.Line, Message: fmt.Sprintf("is given twice, first on line %d", lines[at])})
				continue
			}
			seen[key.Value], lines[at] = true, key.Line
			kept = append(kept, key, value)
			index(at, value, lines, wrong)
		}
		node.Content = kept
	case yaml.SequenceNode:
		for i, item := range node.Content {
			at := element(path, i)
			lines[at] = item.Line
			index(at, item, lines, wrong)
		}
	}
}

// element is the path of the element with index i of a list: they count from 1.
func element(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i+1) }
