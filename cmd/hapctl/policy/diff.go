package policy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hap-worker/hap-worker/cmd/connect"
	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/engine/policy"
	"github.com/hap-worker/hap-worker/worker/config"
)

// policyDiffView lists the differences between two policies. docs/hapctl.md documents its fields.
type policyDiffView struct {
	Before string `json:"before"` // Before and After are the digests of the two policies
	After  string `json:"after"`
	policy.Difference
	// Interfaces are the interfaces with another choice; null if no catalog could be read.
	Interfaces []policy.Changed `json:"interfaces"`
}

func (v policyDiffView) Show(w io.Writer, wide bool) {
	if v.None() {
		fmt.Fprintln(w, "no difference")
	} else {
		var rows [][]string
		for _, part := range []struct {
			change string
			keys   []string
		}{{"added", v.Added}, {"removed", v.Removed}, {"changed", v.Changed}} {
			for _, key := range part.keys {
				rows = append(rows, []string{part.change, key})
			}
		}
		cli.FittedUnless(w, wide, []string{"CHANGE", "RULE"}, rows, "RULE")
	}
	if len(v.Interfaces) == 0 {
		return
	}
	fmt.Fprintln(w)
	rows := make([][]string, len(v.Interfaces))
	for i, c := range v.Interfaces {
		inject := c.Before.Picked == c.After.Picked
		rows[i] = []string{c.Interface, choiceText(c.Before, inject), choiceText(c.After, inject)}
		if !wide { // folded, not shortened: both may begin alike
			rows[i] = []string{c.Interface, rows[i][1] + " -> " + rows[i][2]}
		}
	}
	if !wide {
		cli.FittedText(w, false, []string{"INTERFACE", "BEFORE -> AFTER"}, rows)
		return
	}
	cli.Table(w, []string{"INTERFACE", "BEFORE", "AFTER"}, rows)
}

// choiceText returns the chosen implementation, or "none". With inject, it also returns its injections.
func choiceText(c policy.Choice, inject bool) string {
	if c.Picked == "" {
		return "none"
	}
	if !inject {
		return c.Picked
	}
	injected := make([]string, len(c.Inject))
	for i, in := range c.Inject {
		injected[i] = in.Name + "=" + in.ID
	}
	return c.Picked + " with " + cmp.Or(strings.Join(injected, ", "), "nothing")
}

// summary returns the number of differences as text.
func (v policyDiffView) summary() string {
	text := fmt.Sprintf("%s added, %d removed, %d changed", cli.Count(len(v.Added), "rule"), len(v.Removed), len(v.Changed))
	if v.Interfaces != nil {
		text += ", " + cli.Count(len(v.Interfaces), "interface") + " with another choice"
	}
	return text
}

// readDifference compares the rules of two policies and, if there is a catalog, their choices. f has the files that flags
// name; the others are those of the configuration c. If no flag names a file and one of c's does not exist here, the
// choices are left out. If a flag names one, a missing file is an error. before is nil if there was no valid policy.
func readDifference(s *cli.Shell, c config.Policy, f Files, before, after *policy.Policy) (policyDiffView, error) {
	v := policyDiffView{Difference: policy.Compare(before, after)}
	given := f.Catalog != "" || f.Instances != ""
	f.Catalog, f.Instances = cmp.Or(f.Catalog, c.Catalog), cmp.Or(f.Instances, c.TypeInstances)
	if f.Catalog == "" {
		s.Say("which interfaces get another choice is not known without a catalog; name it with --catalog")
		return v, nil
	}
	catalog, catalogErr := connect.Catalog(f.Catalog)
	instances, instancesErr := readInstances(s, f.Instances)
	if err := faultsOf(catalogErr, instancesErr); err != nil {
		if !given && errors.Is(err, fs.ErrNotExist) {
			s.Say("which interfaces get another choice is not known: %v; name the files with --catalog and --type-instances", err)
			return v, nil
		}
		return v, err
	}
	v.Interfaces = policy.CompareChoices(catalog, policy.NewSnapshot(before, catalog, instances), policy.NewSnapshot(after, catalog, instances))
	return v, nil
}

// compareFlags adds the flags for the catalog and the TypeInstances of a comparison.
func (f *Files) compareFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.Catalog, "catalog", "", "`directory` of OCF manifests, or one file (default: policy.catalog of --config)")
	flags.StringVar(&f.Instances, "type-instances", "", "`file` with the existing TypeInstances (default: policy.typeInstances of --config)")
	if err := cmd.MarkFlagFilename("type-instances", "yaml", "yml", "json"); err != nil {
		panic(err)
	}
}

// readPolicy reads a policy from a file, or from standard input for "-".
func readPolicy(s *cli.Shell, file string) (content []byte, parsed *policy.Policy, err error) {
	if content, err = s.ReadText(file, "policy"); err != nil {
		return nil, nil, err
	}
	parsed, err = policy.Parse(content)
	return content, parsed, connect.InFile(err, file)
}

func newPolicyDiff(s *cli.Shell) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "diff FILE",
		Short: "Compare a policy with the present one",
		Long: `Compare the policy in FILE with the policy that workers read, and show the rules that
it adds, removes and changes. With a catalog, hapctl also shows each interface that
would get another implementation or other TypeInstances. The order of rules in the
document and their formatting do not count as a difference.

The exit code is 5 if there is a difference, and 0 if there is none.`,
		Example: `  hapctl policy diff policy.yaml --config hap-worker.yaml
  hapctl policy diff - --catalog catalog --type-instances typeinstances.yaml < policy.yaml`,
		Args: cli.Arguments(cobra.ExactArgs(1)),
	}
	var files Files
	files.compareFlags(cmd)
	return s.Reader(cmd, "for Gardener", func(ctx context.Context, cfg *config.Config, args []string) error {
		content, after, err := readPolicy(s, args[0])
		if err != nil {
			return err
		}
		p, err := readInForce(ctx, s, cfg)
		if err != nil {
			return err
		}
		before, err := p.parse()
		if err != nil {
			return err
		}
		v, err := readDifference(s, cfg.Policy, files, before, after)
		if err != nil {
			return err
		}
		v.Before, v.After = policy.Digest(p.content), policy.Digest(content)
		if err := s.Print(v); err != nil || v.None() {
			return err
		}
		return cli.Said(cli.ExitConflict)
	})
}
