package config

import (
	"fmt"
	"os"
	"slices"

	"github.com/hap-worker/hap-worker/engine/document"
	"github.com/hap-worker/hap-worker/worker/filewatch"
)

// Load reads the file at path, puts the HAP_ variables of env (as os.Environ
// returns it) above it and the defaults below, and checks the whole. Without a
// path there are only environment and defaults.
//
// A file that cannot be used, for whatever reason, is [document.Faults].
func Load(path string, env []string) (*Config, error) {
	if path == "" {
		return parse("", nil, env)
	}
	sum := filewatch.Sum(path) // first: Watch finds a change meanwhile
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, unread{document.Faults{{Message: "cannot read the configuration: " + err.Error()}}, err}
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
	r := document.Reader{First: 1, Private: true}
	root, ok := r.Empty(), true
	if path != "" {
		root, ok = r.One(content, "to run on defaults alone, start without a file")
	}
	overrides := readEnv(env, from.variables, &wrong)
	root, err := root.Under(overrides.values)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	c := Default()
	if ok {
		c = decode(root, from.lines)
	}
	wrong.take(r.Faults)
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

// element is the path of the element with index i of a list: they count from 1.
func element(path string, i int) string { return document.Item(path, i+1) }
