package config

import (
	"fmt"
	"os"
	"slices"

	"github.com/hap-worker/hap-worker/engine/document"
	"github.com/hap-worker/hap-worker/worker/filewatch"
)

// Load reads the file at path and validates the configuration. The HAP_ variables of env, which has the form
// of os.Environ, override the file; the file overrides the defaults. If path is "", Load reads no file.
//
// The error unwraps to a [document.Faults], and also to the error of the file system if the file cannot be read.
func Load(path string, env []string) (*Config, error) {
	if path == "" {
		return parse("", nil, env)
	}
	sum := filewatch.Sum(path) // before the read, so that Watch finds a change in between
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

// Given reports whether the file or the environment has the section. An empty section of the file counts only
// if it is written as {}.
func (c *Config) Given(section string) bool { return c.present[section] }

// element returns the path of the element with index i of a list. Paths count from 1.
func element(path string, i int) string { return document.Item(path, i+1) }
