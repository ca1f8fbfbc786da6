package policy

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/engine/policy"
)

func newPolicyDownload(s *cli.Shell) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "download --type-instances FILE ID[=PATH]...",
		Short: "Write the values of TypeInstances to files",
		Long: `Write the value of each TypeInstance to PATH, or to standard output if there is no
PATH. hapctl writes a string as it is, and any other value as JSON. If a TypeInstance
is unknown or has no value, hapctl writes nothing. The first step of a rendered
workflow runs this command.`,
		Example: `  hapctl policy download --type-instances typeinstances.yaml 9038dcdc-e959-41c4-a690-d8ebf929ac0c
  hapctl policy download --type-instances typeinstances.yaml 9038dcdc-e959-41c4-a690-d8ebf929ac0c=/downloaded/gcp-sa`,
		Args: cli.Arguments(cobra.MinimumNArgs(1)),
	}
	file := cmd.Flags().String("type-instances", "", "`file` with the TypeInstances, - for standard input")
	if err := cmd.MarkFlagFilename("type-instances", "yaml", "yml", "json"); err != nil {
		panic(err)
	}
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if *file == "" {
			return cli.Usagef("no TypeInstances; name their file with --type-instances FILE")
		}
		instances, err := readInstances(s, *file)
		if err != nil {
			return err
		}
		return writeDownloads(s, instances, args)
	}
	return cmd
}

// writeDownloads writes the values of the TypeInstances that the arguments name. It writes nothing if one of
// them does not exist or has no value.
func writeDownloads(s *cli.Shell, instances []policy.TypeInstance, args []string) error {
	byID := make(map[string]*policy.TypeInstance, len(instances))
	for i := range instances {
		byID[instances[i].ID] = &instances[i]
	}
	paths, contents := make([]string, len(args)), make([][]byte, len(args))
	for i, arg := range args {
		id := arg
		if at := strings.LastIndexByte(arg, '='); at >= 0 {
			id, paths[i] = arg[:at], arg[at+1:]
		}
		t, known := byID[id]
		switch {
		case !known:
			return fmt.Errorf("there is no TypeInstance %s; add it to the file of --type-instances", id)
		case t.Value == nil:
			return fmt.Errorf("TypeInstance %s has no value; add it to the file of --type-instances", id)
		}
		content, err := valueText(t.Value)
		if err != nil {
			return fmt.Errorf("the value of TypeInstance %s cannot be written: %w", id, err)
		}
		contents[i] = content
	}
	for i := range args {
		if err := writeValue(s, paths[i], contents[i]); err != nil {
			return fmt.Errorf("write the value of a TypeInstance: %w", err)
		}
	}
	return nil
}

// valueText returns a string as it is, and any other value as JSON, which is also YAML.
func valueText(value any) ([]byte, error) {
	if text, is := value.(string); is {
		return []byte(text), nil
	}
	var out bytes.Buffer
	err := cli.EncodeJSON(&out, value, "")
	return out.Bytes(), err
}

// All users may read the files: Argo's own container, which reads the artifacts, may run as another user. The
// files are in a volume that only the Pod has.
const (
	valueMode = 0o644
	dirMode   = 0o755
)

func writeValue(s *cli.Shell, path string, content []byte) error {
	if path == "" {
		return s.Stdout.Data(content)
	}
	if err := os.MkdirAll(filepath.Dir(path), dirMode); err != nil {
		return err
	}
	return os.WriteFile(path, content, valueMode)
}
