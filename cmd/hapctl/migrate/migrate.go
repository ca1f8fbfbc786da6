// Package migrate implements hapctl migrate, which prepares the move of a landscape from Kyma Environment
// Broker to hap-worker.
package migrate

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hap-worker/hap-worker/cmd/connect"
	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/engine/document"
	"github.com/hap-worker/hap-worker/gardener"
	"github.com/hap-worker/hap-worker/worker/config"
)

// planView describes a landscape under a configuration.
type planView struct {
	Bindings []plannedBinding `json:"bindings"`
	Shoots   []shootProblem   `json:"shoots"`   // with a problem
	Warnings []string         `json:"warnings"` // about values that are not understood
	Summary  planSummary      `json:"summary"`
}

type planSummary struct {
	Bindings       int            `json:"bindings"`
	States         map[string]int `json:"states"`
	Shoots         int            `json:"shoots"`
	Unselectable   int            `json:"unselectable"`
	Contradictions int            `json:"contradictions"` // of labels, and of Shoots with accounts
}

func (v *planView) count(shoots int) {
	v.Summary = planSummary{Bindings: len(v.Bindings), States: map[string]int{}, Shoots: shoots}
	for _, b := range v.Bindings {
		v.Summary.States[string(b.State)]++
		v.Summary.Contradictions += len(b.Contradictions)
		if !b.Selectable {
			v.Summary.Unselectable++
		}
	}
	for _, s := range v.Shoots {
		if s.Kind != shootUnknown {
			v.Summary.Contradictions++
		}
	}
}

func (b *plannedBinding) troubled() bool {
	return !b.Selectable || len(b.Contradictions) > 0 || len(b.Notes) > 0
}

func (v planView) Show(w io.Writer, wide bool) {
	header := []string{"BINDING", "POOL", "TENANT", "STATE", "SHOOTS", "PLANS"}
	if wide {
		header = append(header, "KIND", "NAMESPACE", "RULES")
	}
	rows := [][]string{}
	for _, b := range v.Bindings {
		row := []string{b.Name, b.Pool, b.Tenant, string(b.State), strconv.Itoa(b.Shoots), b.plans()}
		if wide {
			row = append(row, b.Kind, b.Namespace, b.rules())
		}
		rows = append(rows, cli.Dashed(row))
	}
	cli.FittedUnless(w, wide, header, rows, "PLANS", "TENANT", "POOL", "BINDING")
	v.section(w, wide, "NEVER SELECTED", func(b *plannedBinding) []string {
		if b.Selectable {
			return nil
		}
		return []string{b.Why}
	})
	v.section(w, wide, "CONTRADICTION", func(b *plannedBinding) []string { return b.Contradictions })
	v.section(w, wide, "NOTE", func(b *plannedBinding) []string { return b.Notes })
	if len(v.Shoots) > 0 {
		rows := make([][]string, len(v.Shoots))
		for i, s := range v.Shoots {
			rows[i] = cli.Dashed([]string{s.Shoot, s.Tenant, s.Binding, s.BindingTenant, s.Kind, s.Message})
		}
		fmt.Fprintln(w)
		cli.FittedText(w, wide, []string{"SHOOT", "TENANT", "BINDING", "ITS TENANT", "KIND", "PROBLEM"}, rows, "TENANT", "ITS TENANT", "SHOOT", "BINDING")
	}
	for i, text := range v.Warnings {
		if i == 0 {
			fmt.Fprintln(w, "\nWarnings:")
		}
		fmt.Fprintln(w, text)
	}
	s := v.Summary
	fmt.Fprintf(w, "\n%s, %s; never selected: %d; contradictions: %d\n",
		cli.Count(s.Bindings, "binding"), cli.Count(s.Shoots, "Shoot"), s.Unselectable, s.Contradictions)
}

// section writes a table with the texts that of returns for each binding. It writes nothing if there are none.
func (v planView) section(w io.Writer, wide bool, title string, of func(*plannedBinding) []string) {
	var rows [][]string
	for i := range v.Bindings {
		for _, text := range of(&v.Bindings[i]) {
			rows = append(rows, []string{v.Bindings[i].Name, text})
		}
	}
	if len(rows) > 0 {
		fmt.Fprintln(w)
		cli.FittedText(w, wide, []string{"BINDING", title}, rows)
	}
}

func (b *plannedBinding) plans() string {
	var plans []string
	for _, way := range b.Selections {
		plans = append(plans, way.Plan)
	}
	return strings.Join(distinct(plans), ",")
}

func (b *plannedBinding) rules() string {
	var rules []string
	for _, way := range b.Selections {
		rules = append(rules, cli.Numbered(way.RuleNumber, way.Rule))
	}
	return strings.Join(distinct(rules), "; ")
}

// distinct removes repetitions.
func distinct(texts []string) []string {
	seen := map[string]bool{}
	var kept []string
	for _, text := range texts {
		if !seen[text] {
			kept = append(kept, text)
		}
		seen[text] = true
	}
	return kept
}

// New returns the command hapctl migrate.
func New(s *cli.Shell) *cobra.Command {
	cmd := cli.Group("migrate COMMAND", "Prepare the move of a landscape to hap-worker", newMigratePlan(s), newMigrateCompare(s), newMigrateLabels(s))
	cmd.Long = `Prepare to move a landscape from the account pools of Kyma Environment Broker to
hap-worker. plan shows what becomes of every account. compare shows where a shadow
that runs beside the broker decides differently from the broker. labels renames the
labels of accounts.`
	return cmd
}

// planSource says from which files the landscape is read, and whether only bindings with a problem or a note are
// shown. If bindings is "", the landscape is read from Gardener; if only shoots is "", the file of bindings has the
// Shoots too.
type planSource struct {
	bindings, shoots string
	problems         bool
}

func newMigratePlan(s *cli.Shell) *cobra.Command {
	var from planSource
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Show what becomes of every account, and what prevents the move",
		Long: `Read a landscape from Gardener or from files, and show what the configuration means
for it: the pool and the tenant of every account, the plans that can use it, the
accounts that no rule can select, the labels that contradict each other, and the
Shoots whose account belongs to another tenant or to none. hapctl changes nothing.

The files have the format of kubectl get -o yaml: objects or lists of objects. If
accounts are Secrets, the file of bindings must also contain the CredentialsBindings
and SecretBindings that refer to them; hapctl reads only the metadata of a Secret.
The tenant of a Shoot is its label or annotation named account, or the one that
gardener.shoots.tenant names.

The exit code is 5 if there is a contradiction.`,
		Example: `  hapctl migrate plan --config hap-worker.yaml
  hapctl migrate plan --config hap-worker.yaml --problems -o json
  kubectl get credentialsbindings -o yaml > bindings.yaml
  kubectl get shoots -o yaml > shoots.yaml
  hapctl migrate plan --config hap-worker.yaml --bindings bindings.yaml --shoots shoots.yaml`,
		Args: cli.Arguments(cobra.NoArgs),
	}
	flags := cmd.Flags()
	flags.StringVar(&from.bindings, "bindings", "", "`file` with the bindings, - for standard input (default: read them from Gardener)")
	flags.StringVar(&from.shoots, "shoots", "", "`file` with the Shoots (default with --bindings: the same file)")
	flags.BoolVar(&from.problems, "problems", false, "show only bindings that have a problem or a note")
	s.Reader(cmd, "for Gardener", func(ctx context.Context, cfg *config.Config, _ []string) error {
		return migratePlan(ctx, s, cfg, from)
	})
	timed := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case from.bindings == "" && from.shoots != "":
			return cli.Usagef("--shoots is given without --bindings; name both files")
		case from.bindings == "-" && from.shoots == "-":
			return cli.Usagef("--bindings - and --shoots - would both read standard input; put both into one file")
		}
		return timed(cmd, args)
	}
	return cmd
}

func migratePlan(ctx context.Context, s *cli.Shell, cfg *config.Config, from planSource) error {
	decisions, err := cfg.Decisions()
	if err != nil {
		return err
	}
	warnings := []string{}
	of, err := takeCensus(s, cfg.Gardener, from, func(text string) { warnings = append(warnings, text) })
	if err != nil {
		return err
	}
	plan, err := readPlan(ctx, of, decisions)
	if err != nil {
		return cli.GardenerError(err)
	}
	if several := plan.namespaces(); len(several) > 1 {
		return fmt.Errorf("the bindings are of the namespaces %s; name one of them as gardener.namespace of --config", strings.Join(several, ", "))
	}
	v := plan.plan()
	v.Warnings = warnings
	if from.problems {
		kept := []plannedBinding{}
		for _, b := range v.Bindings {
			if b.troubled() {
				kept = append(kept, b)
			}
		}
		v.Bindings = kept
	}
	if err := s.PrintSome(v, v.Summary.Bindings, "bindings"); err != nil {
		return err
	}
	if v.Summary.Contradictions > 0 {
		s.Say("contradictions: %d; correct the labels (the Shoots tell whose account it is) before a worker decides on these pools", v.Summary.Contradictions)
		return cli.Said(cli.ExitConflict)
	}
	return nil
}

// takeCensus opens the source of the landscape. warn needs no lock: the client of Gardener is not started,
// so it warns from one goroutine at a time.
func takeCensus(s *cli.Shell, c config.Gardener, from planSource, warn func(string)) (census, error) {
	if from.bindings == "" {
		client, _, err := connect.Gardener(c, s.Connections.Context, warn)
		if err != nil {
			return nil, fmt.Errorf("%w; set %s", err, cli.GardenerSetting)
		}
		return client, nil
	}
	snapshot, err := gardener.NewSnapshot(connect.GardenerOptions(c, c.Namespace, warn))
	if err != nil {
		return nil, err
	}
	for _, path := range []string{from.bindings, from.shoots} {
		if err := readObjects(s, snapshot, path); err != nil {
			return nil, err
		}
	}
	if n := snapshot.Skipped(); n > 0 {
		s.Say("%s passed over: hapctl reads only Shoots, and %s with the label of the hyperscaler type, of the landscape's namespace",
			cli.Count(n, "object"), c.Resource)
	}
	return snapshot, nil
}

func readObjects(s *cli.Shell, into *gardener.Snapshot, path string) error {
	if path == "" {
		return nil
	}
	file := s.Stdin
	if path != "-" {
		opened, err := os.Open(path)
		if err != nil {
			return fmt.Errorf("read the landscape: %w", err)
		}
		defer func() { _ = opened.Close() }()
		file = opened
	}
	text, err := document.Stream(file)
	if err == nil {
		err = into.Read(text)
	}
	if err != nil {
		return fmt.Errorf("read the landscape: %s: %w", path, err)
	}
	return nil
}
