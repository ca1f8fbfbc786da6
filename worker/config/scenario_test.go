package config

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"go.yaml.in/yaml/v3"

	"github.com/hap-worker/hap-worker/engine/document"
)

// TestScenarios loads files and prints the keys that differ from the defaults and the warnings, or all
// faults. Lines that begin with "$ " are the environment. The command "env" loads no file.
func TestScenarios(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		t.Parallel()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var env []string
			var file strings.Builder
			for line := range strings.Lines(d.Input) {
				if variable, found := strings.CutPrefix(line, "$ "); found {
					env = append(env, strings.TrimSpace(variable))
					continue
				}
				file.WriteString(line)
			}
			switch d.Cmd {
			case "load":
				return tell(parse("hap.yaml", []byte(file.String()), env))
			case "env":
				return tell(parse("", nil, env))
			case "effective":
				c, err := parse("hap.yaml", []byte(file.String()), env)
				if err != nil {
					return tell(c, err)
				}
				return c.String()
			}
			d.Fatalf(t, "unknown command %q", d.Cmd)
			return ""
		})
	})
}

func tell(c *Config, err error) string {
	if err != nil {
		if _, ok := errors.AsType[document.Faults](err); !ok {
			return "not Faults: " + err.Error() + "\n"
		}
		return err.Error() + "\n"
	}
	var told strings.Builder
	standard := leaves(Default())
	for i, leaf := range leaves(c) {
		if !reflect.DeepEqual(leaf.value.Interface(), standard[i].value.Interface()) {
			var line bytes.Buffer
			encoder := yaml.NewEncoder(&line)
			if err := encoder.Encode(map[string]any{leaf.path: leaf.plain()}); err != nil {
				return err.Error()
			}
			told.Write(line.Bytes())
		}
	}
	if told.Len() == 0 {
		told.WriteString("defaults\n")
	}
	for _, warning := range c.Warnings() {
		fmt.Fprintf(&told, "warning: %s\n", warning)
	}
	return told.String()
}
