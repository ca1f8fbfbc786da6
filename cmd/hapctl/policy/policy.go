// Package policy implements hapctl policy: it checks, resolves, renders and compares policies, and puts them
// in force.
package policy

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/hap-worker/hap-worker/cmd/connect"
	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/engine/document"
	"github.com/hap-worker/hap-worker/engine/policy"
)

// New returns the command hapctl policy.
func New(s *cli.Shell) *cobra.Command {
	cmd := cli.Group("policy COMMAND", "Check, show and change the policy",
		newPolicyCheck(s), newPolicyConvert(s), newPolicyResolve(s), newPolicyRender(s), newPolicyDownload(s),
		newPolicyShow(s), newPolicyDiff(s), newPolicyApply(s), newPolicyRollback(s))
	cmd.Long = `A policy says which implementation serves an interface. check, resolve, render and
download read files: they check a policy and show what it chooses from a catalog.
show, diff, apply and rollback use the policy that workers read.`
	return cmd
}

// Files are the files of a resolution, as flags name them.
type Files struct {
	Policy, Catalog, Instances string
}

// Flags adds the flags that name the files.
func (f *Files) Flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.Policy, "policy", "", "policy `file`")
	flags.StringVar(&f.Catalog, "catalog", "", "`directory` of OCF manifests, or one file with YAML documents or in the short form")
	flags.StringVar(&f.Instances, "type-instances", "", "`file` with the existing TypeInstances (default: none)")
	for _, flag := range []string{"policy", "type-instances"} {
		if err := cmd.MarkFlagFilename(flag, "yaml", "yml", "json"); err != nil {
			panic(err)
		}
	}
}

// Snapshot reads all files. If any of them is invalid, the error has the faults of all.
func (f *Files) Snapshot(s *cli.Shell) (*policy.Snapshot, error) {
	switch {
	case f.Policy == "":
		return nil, cli.Usagef("no policy; name its file with --policy FILE, or a worker's configuration with --config")
	case f.Catalog == "":
		return nil, cli.Usagef("no catalog; name its directory or file with --catalog, or in policy.catalog of --config")
	}
	content, err := s.ReadText(f.Policy, "policy")
	if err != nil {
		return nil, err
	}
	return f.join(s, content, f.Policy)
}

// join reads catalog and TypeInstances for a policy. Faults of the policy name place as its file.
func (f *Files) join(s *cli.Shell, content []byte, place string) (*policy.Snapshot, error) {
	chosen, policyErr := policy.Parse(content)
	catalog, catalogErr := connect.Catalog(f.Catalog)
	instances, instancesErr := readInstances(s, f.Instances)
	if err := faultsOf(connect.InFile(policyErr, place), catalogErr, instancesErr); err != nil {
		return nil, err
	}
	return policy.NewSnapshot(chosen, catalog, instances), nil
}

// faultsOf joins the faults of all errors. If one of errs is another kind of error, it returns the first such
// error alone.
func faultsOf(errs ...error) error {
	var all document.Faults
	for _, err := range errs {
		faults, is := errors.AsType[document.Faults](err)
		if err != nil && !is {
			return err
		}
		all = append(all, faults...)
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

func readInstances(s *cli.Shell, name string) ([]policy.TypeInstance, error) {
	if name == "" {
		return nil, nil
	}
	content, err := s.ReadText(name, "TypeInstances")
	if err != nil {
		return nil, err
	}
	instances, err := policy.ParseTypeInstances(content)
	return instances, connect.InFile(err, name)
}

func newPolicyCheck(s *cli.Shell) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check (-f FILE | --config FILE)",
		Short: "Check a policy",
		Long: `Check a policy and report every error with its line: unknown or duplicate fields,
invalid rule keys, revisions and versions, and injections without id or type. The
exit code is 3 if there is an error. Warnings about alternatives that are never
reached do not change the exit code.

Without -f, hapctl checks the policy of --config, in a file or a ConfigMap, together
with the catalog and the TypeInstances of that configuration.`,
		Example: `  hapctl policy check -f policy.yaml
  hapctl policy check --config hap-worker.yaml
  hapctl policy check -f - -o json < policy.yaml`,
		Args: cli.Arguments(cobra.NoArgs),
	}
	file := cmd.Flags().StringP("file", "f", "", "policy `file`, - for standard input")
	if err := cmd.MarkFlagFilename("file", "yaml", "yml", "json"); err != nil {
		panic(err)
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *file == "" && s.Connections.File() != "" {
			return checkConfigured(cmd.Context(), s)
		}
		if *file == "" {
			return cli.Usagef("no policy; name its file with -f FILE, or a worker's configuration with --config")
		}
		content, err := s.ReadText(*file, "policy")
		if err != nil {
			return err
		}
		return checkPolicy(s, content)
	}
	return cmd
}

func checkPolicy(s *cli.Shell, content []byte) error {
	checked, err := policy.Parse(content)
	faults, is := errors.AsType[document.Faults](err)
	if err != nil && !is {
		return err
	}
	return printChecked(s, checked, faults)
}

// printChecked prints the result of a check.
func printChecked(s *cli.Shell, checked *policy.Policy, faults document.Faults) error {
	v := cli.DocumentCheckView{Valid: len(faults) == 0, Errors: cli.NotNil(faults), Warnings: document.Faults{}}
	if v.Valid {
		v.Rules, v.Warnings = len(checked.Rules), cli.NotNil(checked.Warnings())
	}
	if err := s.Print(v); err != nil {
		return err
	}
	if !v.Valid {
		s.Say("the policy is not valid: %s; correct what is listed and check again", cli.Count(len(faults), "fault"))
		return cli.Said(cli.ExitInvalid)
	}
	return nil
}
