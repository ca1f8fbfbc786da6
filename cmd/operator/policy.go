package operator

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/hap-worker/hap-worker/cmd/connect"
	"github.com/hap-worker/hap-worker/engine/document"
	"github.com/hap-worker/hap-worker/engine/policy"
)

func newPolicy(s *shell) *cobra.Command {
	cmd := group("policy COMMAND", "Check, show and change the policy",
		newPolicyCheck(s), newPolicyConvert(s), newPolicyResolve(s), newPolicyRender(s), newPolicyDownload(s),
		newPolicyShow(s), newPolicyDiff(s), newPolicyApply(s), newPolicyRollback(s))
	cmd.Long = `A policy says which implementation serves an interface. check, resolve, render and
download read files: they check a policy and show what it chooses from a catalog.
show, diff, apply and rollback use the policy that workers read.`
	return cmd
}

// readText reads a file, standard input for "-", in UTF-8 without a byte order mark. What is no text
// it leaves to the reader of what the file has, whose faults say so.
func (s *shell) readText(name, what string) ([]byte, error) {
	var content []byte
	var err error
	if name == "-" {
		content, err = io.ReadAll(s.stdin)
	} else {
		content, err = os.ReadFile(name)
	}
	if err != nil {
		return nil, fmt.Errorf("read the %s: %w", what, err)
	}
	if text, err := document.Text(content); err == nil {
		return text, nil
	}
	return content, nil
}

// policyFiles are the flags of what a resolution works with.
type policyFiles struct {
	policy, catalog, instances string
}

func (f *policyFiles) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.policy, "policy", "", "policy `file`")
	flags.StringVar(&f.catalog, "catalog", "", "`directory` of OCF manifests, or one file with YAML documents or in the short form")
	flags.StringVar(&f.instances, "type-instances", "", "`file` with the existing TypeInstances (default: none)")
	for _, flag := range []string{"policy", "type-instances"} {
		if err := cmd.MarkFlagFilename(flag, "yaml", "yml", "json"); err != nil {
			panic(err)
		}
	}
}

// snapshot reads them all; the faults of all of them are told together.
func (f *policyFiles) snapshot(s *shell) (*policy.Snapshot, error) {
	switch {
	case f.policy == "":
		return nil, usagef("no policy; name its file with --policy FILE, or a worker's configuration with --config")
	case f.catalog == "":
		return nil, usagef("no catalog; name its directory or file with --catalog, or in policy.catalog of --config")
	}
	content, err := s.readText(f.policy, "policy")
	if err != nil {
		return nil, err
	}
	return f.join(s, content, f.policy)
}

// join reads catalog and TypeInstances for a policy that was found in the place.
func (f *policyFiles) join(s *shell, content []byte, place string) (*policy.Snapshot, error) {
	chosen, policyErr := policy.Parse(content)
	catalog, catalogErr := connect.Catalog(f.catalog)
	instances, instancesErr := s.readInstances(f.instances)
	if err := faultsOf(connect.InFile(policyErr, place), catalogErr, instancesErr); err != nil {
		return nil, err
	}
	return policy.NewSnapshot(chosen, catalog, instances), nil
}

// faultsOf is every fault of the errors; the first that is none goes before them.
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

func (s *shell) readInstances(name string) ([]policy.TypeInstance, error) {
	if name == "" {
		return nil, nil
	}
	content, err := s.readText(name, "TypeInstances")
	if err != nil {
		return nil, err
	}
	instances, err := policy.ParseTypeInstances(content)
	return instances, connect.InFile(err, name)
}

// documentCheckView is the result of a check of a document.
type documentCheckView struct {
	Valid    bool            `json:"valid"`
	Errors   document.Faults `json:"errors"`
	Warnings document.Faults `json:"warnings"`

	rules int
}

func (v documentCheckView) show(w io.Writer, _ bool) {
	header, faults := []string{"LINE", "PATH", "KIND", "MESSAGE"}, documentFaultRows(v.Errors)
	if slices.ContainsFunc(v.Errors, func(f document.Fault) bool { return f.File != "" }) {
		header = slices.Insert(header, 0, "FILE")
		for i := range faults {
			faults[i] = slices.Insert(faults[i], 0, v.Errors[i].File)
		}
	}
	showCheck(w, v.Valid, v.rules, header, faults, documentFaultRows(v.Warnings))
}

// showCheck writes what the check of a document found: how many rules are valid, or
// its faults; and its warnings.
func showCheck(w io.Writer, valid bool, rules int, header []string, faults, warnings [][]string) {
	if valid {
		fmt.Fprintf(w, "valid: %s\n", count(rules, "rule"))
	} else {
		table(w, header, faults)
	}
	if len(warnings) > 0 {
		fmt.Fprintln(w, "\nWarnings:")
		table(w, header, warnings)
	}
}

func documentFaultRows(faults document.Faults) [][]string {
	dash := func(text string) string {
		if text == "" || text == "0" {
			return "-"
		}
		return text
	}
	var rows [][]string
	for _, f := range faults {
		rows = append(rows, []string{dash(strconv.Itoa(f.Line)), dash(f.Path), string(f.Kind), f.Message})
	}
	return rows
}

func newPolicyCheck(s *shell) *cobra.Command {
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
		Args: arguments(cobra.NoArgs),
	}
	file := cmd.Flags().StringP("file", "f", "", "policy `file`, - for standard input")
	if err := cmd.MarkFlagFilename("file", "yaml", "yml", "json"); err != nil {
		panic(err)
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *file == "" && s.connections.file() != "" {
			return s.checkConfigured(cmd.Context())
		}
		if *file == "" {
			return usagef("no policy; name its file with -f FILE, or a worker's configuration with --config")
		}
		content, err := s.readText(*file, "policy")
		if err != nil {
			return err
		}
		return s.checkPolicy(content)
	}
	return cmd
}

func (s *shell) checkPolicy(content []byte) error {
	checked, err := policy.Parse(content)
	faults, is := errors.AsType[document.Faults](err)
	if err != nil && !is {
		return err
	}
	return s.checked(checked, faults)
}

// checked shows the result of a check.
func (s *shell) checked(checked *policy.Policy, faults document.Faults) error {
	v := documentCheckView{Valid: len(faults) == 0, Errors: notNil(faults), Warnings: document.Faults{}}
	if v.Valid {
		v.rules, v.Warnings = len(checked.Rules), notNil(checked.Warnings())
	}
	if err := s.print(v); err != nil {
		return err
	}
	if !v.Valid {
		s.say("the policy is not valid: %s; correct what is listed and check again", count(len(faults), "fault"))
		return said(exitInvalid)
	}
	return nil
}
