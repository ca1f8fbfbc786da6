package rules

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/rule"
)

// matchView is the rule that serves a request. Others is nil if the output does not include the other rules.
type matchView struct {
	Matched         bool          `json:"matched"`
	Rule            string        `json:"rule"`
	RuleNumber      int           `json:"ruleNumber,omitempty"` // 0 in the older form
	Provider        string        `json:"provider"`
	HyperscalerType string        `json:"hyperscalerType"`
	EUAccess        bool          `json:"euAccess"`
	Shared          bool          `json:"shared"`
	Pool            string        `json:"pool"`
	Selectors       selectors     `json:"selectors"`
	Others          *[]rule.Other `json:"others,omitempty"`
}

// selectors are the label selectors in the order in which they are tried.
type selectors struct {
	Tenant string `json:"tenant,omitempty"`
	Claim  string `json:"claim,omitempty"`
}

// noMatchView is the result if no rule matches.
type noMatchView struct {
	Matched bool         `json:"matched"`
	Others  []rule.Other `json:"others"`
}

func viewOf(m rule.Match) matchView {
	return matchView{
		Matched: true, Rule: m.Rule, RuleNumber: m.RuleNumber, Provider: m.Provider,
		HyperscalerType: m.Pool.HyperscalerType, EUAccess: m.Pool.EUAccess, Shared: m.Pool.Shared, Pool: m.Pool.Name(),
		Selectors: selectors{Tenant: m.TenantSelector(), Claim: m.ClaimSelector()},
	}
}

func (v matchView) Show(w io.Writer, wide bool) {
	lines := [][2]string{{"RULE", cli.Numbered(v.RuleNumber, v.Rule)}, {"POOL", v.Pool}}
	if wide {
		lines = append(lines,
			[2]string{"PROVIDER", v.Provider}, [2]string{"HYPERSCALER TYPE", v.HyperscalerType},
			[2]string{"EU ACCESS", strconv.FormatBool(v.EUAccess)}, [2]string{"SHARED", strconv.FormatBool(v.Shared)})
	}
	first := "TENANT SELECTOR"
	if v.Shared {
		first = "SHARED SELECTOR"
	}
	cli.Pairs(w, append(lines, [2]string{first, v.Selectors.Tenant}, [2]string{"CLAIM SELECTOR", v.Selectors.Claim}))
	if v.Others != nil {
		showOthers(w, wide, *v.Others)
	}
}

func (v noMatchView) Show(w io.Writer, wide bool) {
	fmt.Fprintln(w, "no rule matches")
	showOthers(w, wide, v.Others)
}

func showOthers(w io.Writer, wide bool, others []rule.Other) {
	if len(others) == 0 {
		return
	}
	rows := make([][]string, len(others))
	for i, o := range others {
		rows[i] = []string{cli.Numbered(o.RuleNumber, o.Rule), o.Why}
	}
	fmt.Fprintln(w)
	cli.FittedText(w, wide, []string{"OTHER RULE OF THE PLAN", "WHY NOT"}, rows, "OTHER RULE OF THE PLAN")
}

func newRulesExplain(s *cli.Shell) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain -f FILE (--plan PLAN | --stdin)",
		Short: "Show which rule serves a request, and why",
		Long: `Show the rule that serves a request, its pool, the label selectors of that pool, and
why each other rule of the plan did not win. The label keys in the selectors come
from gardener.labels of the file, or else of --config. hapctl does not check a
provider that you pass; without one it uses the plan's. hapctl does not require an
entry for every plan. The exit code is 4 if no rule matches.

For the four older lists, hapctl shows the members that apply in place of a rule.

With --stdin, each input line is a request such as
  {"plan":"aws","platformRegion":"cf-eu11","hyperscalerRegion":"eu-central-1","provider":"aws","tenant":"ga-1"}
For each line, hapctl prints one line of JSON.`,
		Example: `  hapctl rules explain -f values.yaml --plan gcp --platform-region cf-sa30
  hapctl rules explain -f rules.yaml --stdin < requests.ndjson`,
		Args: cli.Arguments(cobra.NoArgs),
	}
	read := cli.RulesFile(s, cmd)
	var r rule.Request
	request := requestFlags(cmd, &r)
	stdin := cmd.Flags().Bool("stdin", false, "read requests from standard input, one JSON object per line")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		given := slices.DeleteFunc(request, func(name string) bool { return !cmd.Flags().Changed(name) })
		switch {
		case *stdin && len(given) > 0:
			return cli.Usagef("--stdin and --%s exclude each other; write it into the JSON lines", given[0])
		case *stdin && cmd.Flag("file").Value.String() == "-":
			return cli.Usagef("--stdin and -f - would both read standard input")
		case !*stdin && r.Plan == "":
			return cli.Usagef("no request; name its plan with --plan, or read requests with --stdin")
		}
		file, err := read()
		if err != nil {
			return err
		}
		set, err := file.Compile(rule.Options{Plans: rule.BuiltinPlans(), Require: []string{}, AnyPlan: true, Labels: s.LabelKeys(file)})
		if err != nil {
			return err
		}
		if *stdin {
			return cli.RunLines(cmd.Context(), s, func(_ context.Context, r rule.Request) (any, error) { return explain(set, r) })
		}
		return printMatch(s, set, r)
	}
	return cmd
}

// requestFlags adds the flags of a request and returns their names.
func requestFlags(cmd *cobra.Command, r *rule.Request) []string {
	flags := cmd.Flags()
	flags.StringVar(&r.Plan, "plan", "", "`plan` of the request")
	flags.StringVar(&r.PlatformRegion, "platform-region", "", "platform `region`, such as cf-eu11")
	flags.StringVar(&r.HyperscalerRegion, "hyperscaler-region", "", "hyperscaler `region`, such as eu-central-1")
	flags.StringVar(&r.Provider, "provider", "", "hyperscaler `name` (default: the plan's)")
	flags.StringVar(&r.Tenant, "tenant", "", "global account `id` in the selector of the tenant's own bindings")
	plans := cobra.FixedCompletions(cli.PlanNames(), cobra.ShellCompDirectiveNoFileComp)
	cli.MustRegister(cmd, "plan", plans)
	return []string{"plan", "platform-region", "hyperscaler-region", "provider", "tenant"}
}

// explain returns a *matchView, or a *noMatchView with an error if no rule matches. For other errors it
// returns no view.
func explain(set *rule.Ruleset, r rule.Request) (any, error) {
	if r.Tenant != "" && !engine.ValidID(r.Tenant) {
		return nil, &engine.Error{
			Code: engine.CodeInvalidEvent,
			Err:  fmt.Errorf("the tenant %q is no id", r.Tenant),
			Hint: fmt.Sprintf("an id has at most %d letters, digits, \"-\" and \"_\", and begins and ends with a letter or digit", engine.MaxID),
		}
	}
	e, err := set.Explain(r)
	if err != nil {
		return nil, err
	}
	if !e.Matched {
		return &noMatchView{Others: e.Others}, set.NoMatch(r)
	}
	v := viewOf(e.Match)
	v.Others = &e.Others
	return &v, nil
}

func printMatch(s *cli.Shell, set *rule.Ruleset, r rule.Request) error {
	result, err := explain(set, r)
	if v, ok := result.(cli.View); ok {
		if printing := s.Print(v); printing != nil {
			return printing
		}
	}
	return err
}
