// Package network implements hapctl network: it checks and tries network rules, and shows the ranges in use.
package network

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/document"
	"github.com/hap-worker/hap-worker/engine/network"
)

// New returns the command hapctl network.
func New(s *cli.Shell) *cobra.Command {
	cmd := cli.Group("network COMMAND", "Check network rules and show network blocks",
		newNetworkPlan(s), newNetworkCheck(s), newNetworkMatch(s), newNetworkPath(s),
		newNetworkList(s), newNetworkFree(s), newNetworkConflicts(s))
	cmd.Long = `Check network rules, and show which network blocks they allot. check, match, path and
plan connect to nothing. list, free and conflicts read the blocks that are allotted
now from Redis.

The rules are an IPAMConfig in YAML or JSON: the manifest, its spec, or only the
fields of its spec. If you pass a configuration file of hap-worker, hapctl reads the
rules from the file that network.file names.`
	return cmd
}

// networkFile adds the flag --file to a command. The returned function reads the network rules from that
// file, or else from the file of --config.
func networkFile(s *cli.Shell, cmd *cobra.Command) func() (*network.Config, document.Faults, error) {
	path := cmd.Flags().StringP("file", "f", "", "IPAMConfig `file`, - for standard input (default: the file of --config)")
	stdin := func() bool { f := cmd.Flag("stdin"); return f != nil && f.Changed }
	if err := cmd.MarkFlagFilename("file", "yaml", "yml", "json"); err != nil {
		panic(err)
	}
	return func() (*network.Config, document.Faults, error) {
		from := *path
		switch {
		case from != "" && s.Connections.Config != "":
			return nil, nil, cli.Usagef("-f and --config both name a file of network rules; keep one")
		case from == "-" && stdin():
			return nil, nil, cli.Usagef("--stdin and -f - would both read standard input")
		case from == "":
			from = s.Connections.File()
		}
		if from == "" {
			return nil, nil, cli.Usagef("no network rules; name the file of an IPAMConfig with -f FILE")
		}
		return Read(s, from)
	}
}

// Read reads a file of network rules, or standard input for "-". If that is a configuration of hap-worker, it
// reads the file that network.file names. If the rules are invalid, the error is a document.Faults.
func Read(s *cli.Shell, path string) (*network.Config, document.Faults, error) {
	content, err := s.ReadText(path, "network rules")
	if err != nil {
		return nil, nil, err
	}
	if elsewhere := namedFile(content); elsewhere != "" {
		if content, err = s.ReadText(elsewhere, "network rules"); err != nil {
			return nil, nil, fmt.Errorf("network.file of %s: %w", path, err)
		}
	}
	return network.Parse(content)
}

// namedFile returns network.file of a configuration of hap-worker, "" for any other file.
func namedFile(content []byte) string {
	var worker struct {
		Network struct {
			File string `json:"file"`
		} `json:"network"`
	}
	if err := yaml.Unmarshal(content, &worker); err != nil {
		return "" // the parser of network rules reports the error
	}
	return worker.Network.File
}

func newNetworkCheck(s *cli.Shell) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check -f FILE",
		Short: "Check network rules",
		Long: `Check network rules and report every error with its path: the file's form, CIDRs,
ids, paths, selectors and sizes, and rules that conflict with each other. The exit
code is 3 if there is an error. Warnings do not change the exit code.`,
		Example: `  hapctl network check -f ipam.yaml
  kubectl get ipamconfig ipam -o yaml | hapctl network check -f - -o json`,
		Args: cli.Arguments(cobra.NoArgs),
	}
	read := networkFile(s, cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		config, warnings, err := read()
		var faults document.Faults
		if err != nil && !errors.As(err, &faults) {
			return err
		}
		v := cli.DocumentCheckView{Valid: err == nil, Errors: cli.NotNil(faults), Warnings: cli.NotNil(warnings)}
		if config != nil {
			v.Rules = len(config.Rules)
		}
		if err := s.Print(v); err != nil {
			return err
		}
		if !v.Valid {
			s.Say("the network rules are not valid: %s; correct what is listed and check again", cli.Count(len(faults), "fault"))
			return cli.Said(cli.ExitInvalid)
		}
		return nil
	}
	return cmd
}

// pathView is the JSON pointer for a path.
type pathView struct {
	Pointer string `json:"pointer"`
}

func (v pathView) Show(w io.Writer, _ bool) { fmt.Fprintln(w, v.Pointer) }

func pointerOf(path string) (any, error) {
	pointer, err := network.Pointer(path)
	if err != nil {
		return nil, &cli.ExitError{Code: cli.ExitInvalid, Err: &engine.Error{Code: engine.CodeInvalidEvent, Err: err}}
	}
	return pathView{Pointer: pointer}, nil
}
