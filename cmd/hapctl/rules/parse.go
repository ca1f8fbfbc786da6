package rules

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/engine/rule"
)

// parseView is the result of parsing rules.
type parseView struct {
	Rules    []parsedRule   `json:"rules"`
	Lists    []parsedMember `json:"lists,omitempty"` // of the older form
	Errors   []rule.Fault   `json:"errors"`
	Warnings []rule.Fault   `json:"warnings"`
	Match    cli.View       `json:"match,omitempty"`
}

// parsedRule is a rule without a syntax fault: its text, its canonical spelling and its parts.
type parsedRule struct {
	Rule              int      `json:"rule"`
	Text              string   `json:"text"`
	Canonical         string   `json:"canonical"`
	Plan              string   `json:"plan"`
	PlatformRegion    string   `json:"platformRegion,omitempty"`
	HyperscalerRegion string   `json:"hyperscalerRegion,omitempty"`
	Outputs           []string `json:"outputs"`
}

// parsedMember is a member of one of the older lists. An absent plan or region means any.
type parsedMember struct {
	Key       string `json:"key"`
	Member    int    `json:"member"`
	Text      string `json:"text"`
	Canonical string `json:"canonical"`
	Plan      string `json:"plan,omitempty"`
	Region    string `json:"region,omitempty"`
}

func (v parseView) showLists(w io.Writer, wide bool) {
	if len(v.Lists) == 0 {
		return
	}
	header := []string{"LIST", "NUMBER", "MEMBER"}
	if wide {
		header = append(header, "PLAN", "REGION")
	}
	rows := make([][]string, len(v.Lists))
	for i, m := range v.Lists {
		rows[i] = []string{m.Key, fmt.Sprint(m.Member), m.Canonical}
		if wide {
			rows[i] = append(rows[i], orAny(m.Plan), orAny(m.Region))
		}
	}
	cli.FittedUnless(w, wide, header, rows, "MEMBER")
}

func (v parseView) Show(w io.Writer, wide bool) {
	if len(v.Rules) > 0 {
		rows := make([][]string, len(v.Rules))
		for i, r := range v.Rules {
			rows[i] = []string{fmt.Sprint(r.Rule), r.Canonical}
			if wide {
				rows[i] = append(rows[i], r.Plan, orAny(r.PlatformRegion), orAny(r.HyperscalerRegion), orNone(r.Outputs))
			}
		}
		header := []string{"NUMBER", "RULE"}
		if wide {
			header = append(header, "PLAN", "PLATFORM REGION", "HYPERSCALER REGION", "OUTPUTS")
		}
		cli.FittedUnless(w, wide, header, rows, "RULE")
	}
	v.showLists(w, wide)
	for _, f := range v.Errors {
		cli.Pointed(w, "error", f)
	}
	for _, f := range v.Warnings {
		cli.Pointed(w, "warning", f)
	}
	if v.Match != nil {
		fmt.Fprintln(w)
		v.Match.Show(w, wide)
	}
}

func orAny(region string) string {
	if region == "" {
		return "*"
	}
	return region
}

func orNone(outputs []string) string {
	if len(outputs) == 0 {
		return "-"
	}
	return strings.Join(outputs, ",")
}

func newRulesParse(s *cli.Shell) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "parse (-e 'RULE;RULE' | -f FILE) [-m JSON]",
		Short: "Parse rules and match a request",
		Long: `Parse rules, and show their canonical spelling and all their errors. With -m, hapctl
also shows the rule that serves a request and the labels by which workers search its
pool. The flags are those of "hap parse" of Kyma Environment Broker. hapctl does not
require an entry for every plan. The exit code is 3 if a rule has an error, and 4 if
no rule matches.`,
		Example: `  hapctl rules parse -e 'aws; aws(PR=cf-eu11) -> EU'
  hapctl rules parse -f rules.yaml -m '{"plan":"aws","platformRegion":"cf-eu11","hyperscalerRegion":"eu-central-1"}'`,
		Args: cli.Arguments(cobra.NoArgs),
	}
	read := cli.RulesFile(s, cmd)
	entry := cmd.Flags().StringP("entry", "e", "", "`rules` to parse, separated by semicolons")
	match := cmd.Flags().StringP("match", "m", "", "`request` as JSON with plan, platformRegion, hyperscalerRegion, provider and tenant")
	cmd.Flags().BoolP("no-color", "n", false, "accepted for compatibility with \"hap parse\"; the output has no colours")
	// As in "hap parse", -n is --no-color here. So --namespace, which no rule needs, has no short form.
	cmd.Flags().StringVar(&s.Connections.Namespace, "namespace", "", "")
	if err := cmd.Flags().MarkHidden("namespace"); err != nil {
		panic(err)
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var request *rule.Request
		if cmd.Flags().Changed("match") {
			request = &rule.Request{}
			if err := json.Unmarshal([]byte(*match), request); err != nil {
				return cli.Usagef("-m takes a JSON object such as {\"plan\":\"aws\"}: %w", err)
			}
		}
		if !cmd.Flags().Changed("entry") {
			return printParsed(s, read, request)
		}
		if cmd.Flags().Changed("file") {
			return cli.Usagef("-e and -f exclude each other; keep one of them")
		}
		return printParsed(s, func() (rule.File, error) { return entries(*entry), nil }, request)
	}
	return cmd
}

// entries returns the rules of -e. A semicolon may follow the last one.
func entries(text string) rule.File {
	text = strings.TrimSuffix(strings.TrimSpace(text), ";")
	var file rule.File
	if text = strings.TrimSpace(text); text == "" {
		return file
	}
	for entry := range strings.SplitSeq(text, ";") {
		file.Texts = append(file.Texts, strings.TrimSpace(entry))
	}
	return file
}

func printParsed(s *cli.Shell, read func() (rule.File, error), r *rule.Request) error {
	file, err := read()
	var set *rule.Ruleset
	if err == nil {
		set, err = file.Compile(rule.Options{Plans: rule.BuiltinPlans(), Require: []string{}, Labels: s.LabelKeys(file)})
	}
	v := parseView{Rules: parsedRules(file.Texts), Lists: parsedMembers(file.Older), Errors: []rule.Fault{}, Warnings: []rule.Fault{}}
	var faults rule.Faults
	switch {
	case errors.As(err, &faults):
		v.Errors = faults
	case err != nil:
		return err
	default:
		v.Warnings = cli.NotNil(set.Warnings())
		if r != nil {
			v.Match, err = match(set, *r)
		}
	}
	if printing := s.Print(v); printing != nil {
		return printing
	}
	if len(faults) > 0 {
		s.Say("the rules are not valid: %s; correct them%s", cli.Count(len(faults), "fault"), unmatched(r))
		return cli.Said(cli.ExitInvalid)
	}
	return err
}

func unmatched(r *rule.Request) string {
	if r == nil {
		return ""
	}
	return ", nothing was matched"
}

func parsedRules(texts []string) []parsedRule {
	rules := []parsedRule{}
	for i, text := range texts {
		e, err := rule.Parse(text)
		if err != nil {
			continue
		}
		rules = append(rules, parsedRule{
			Rule: i + 1, Text: strings.TrimSpace(text), Canonical: e.String(), Plan: e.Plan,
			PlatformRegion: e.PlatformRegion, HyperscalerRegion: e.HyperscalerRegion, Outputs: cli.NotNil(e.Outputs.Names()),
		})
	}
	return rules
}

func parsedMembers(older *rule.Lists) []parsedMember {
	if older == nil {
		return nil
	}
	listed, _ := older.Members()
	members := make([]parsedMember, len(listed))
	for i, m := range listed {
		members[i] = parsedMember{Key: m.Key, Member: m.Number, Text: m.Text, Canonical: m.Member.String(), Plan: m.Plan, Region: m.Region}
	}
	return members
}

// match explains a request as explain does, and returns its view and error. If a rule matches, the view has no other
// rules, which the output lists already.
func match(set *rule.Ruleset, r rule.Request) (cli.View, error) {
	result, err := explain(set, r)
	if v, ok := result.(*matchView); ok {
		v.Others = nil
		return v, nil
	}
	if v, ok := result.(*noMatchView); ok {
		return v, err
	}
	return nil, err
}
