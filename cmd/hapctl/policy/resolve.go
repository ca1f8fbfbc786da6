package policy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/policy"
)

// resolvedView is the implementation of an interface.
type resolvedView struct {
	Picked      string            `json:"picked"`
	RuleKey     string            `json:"ruleKey"`
	Alternative int               `json:"alternative"`
	Matching    []string          `json:"matching"`
	Inject      []policy.Injected `json:"inject"`

	decided policy.Decision
}

// refusedView explains why an interface has no implementation.
type refusedView struct {
	Error   cli.LineError `json:"error"`
	RuleKey string        `json:"ruleKey,omitempty"`

	rejected []policy.Rejected
}

func resolved(d policy.Decision) *resolvedView {
	v := &resolvedView{
		Picked: d.Picked.String(), RuleKey: d.RuleKey, Alternative: d.Alternative,
		Matching: make([]string, len(d.Matching)), Inject: cli.NotNil(d.Inject), decided: d,
	}
	for i, ref := range d.Matching {
		v.Matching[i] = ref.String()
	}
	return v
}

func (v *resolvedView) Show(w io.Writer, wide bool) {
	lines := [][2]string{
		{"PICKED", v.Picked}, {"INTERFACE", v.decided.Interface.String()},
		{"RULE", v.RuleKey}, {"ALTERNATIVE", strconv.Itoa(v.Alternative)},
	}
	if wide {
		lines = append(lines, [2]string{"MANIFEST", v.decided.Picked.File})
	}
	cli.Pairs(w, lines)
	if len(v.Matching) > 1 {
		fmt.Fprintln(w)
		rows := make([][]string, 0, len(v.Matching)-1)
		for _, ref := range v.Matching[1:] {
			rows = append(rows, []string{ref})
		}
		cli.Table(w, []string{"MATCHES TOO"}, rows)
	}
	if len(v.Inject) > 0 {
		fmt.Fprintln(w)
		rows := make([][]string, len(v.Inject))
		for i, in := range v.Inject {
			rows[i] = []string{in.Name, in.ID}
		}
		cli.FittedUnless(w, wide, []string{"INJECTED", "TYPE INSTANCE"}, rows, "INJECTED")
	}
}

func (v *refusedView) Show(w io.Writer, wide bool) {
	fmt.Fprintln(w, "no implementation")
	if len(v.rejected) == 0 {
		return
	}
	var rows [][]string
	for _, r := range v.rejected {
		for n, why := range r.Failed {
			rows = append(rows, []string{r.Implementation.String(), strconv.Itoa(n), why})
		}
	}
	fmt.Fprintln(w)
	cli.FittedText(w, wide, []string{"IMPLEMENTATION", "ALTERNATIVE", "WHY NOT"}, rows, "IMPLEMENTATION")
}

func newPolicyResolve(s *cli.Shell) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "resolve (--policy FILE --catalog DIR-or-FILE [--type-instances FILE] | --config FILE) (--interface PATH[:REVISION] | --stdin)",
		Short: "Show which implementation serves an interface, and why",
		Long: `Show which implementation of a catalog serves an interface: the rule and the
alternative that chose it, the other implementations that match, and the
TypeInstances that are injected. Without a revision, hapctl uses the interface's
newest one. If no implementation serves the interface, the exit code is 4, and the
message says that there is no rule, that a rule denies it, or which condition each
candidate fails.

Without flags, hapctl uses the policy (in a file or a ConfigMap), the catalog and the
TypeInstances of --config.

With --stdin, each input line is an interface such as
  {"path":"cap.interface.database.postgresql.install","revision":"0.1.0"}
For each line, hapctl prints one line of JSON.`,
		Example: `  hapctl policy resolve --policy policy.yaml --catalog catalog --type-instances typeinstances.yaml \
    --interface cap.interface.database.postgresql.install:0.1.0
  hapctl policy resolve --policy policy.yaml --catalog catalog.json --stdin < interfaces.ndjson`,
		Args: cli.Arguments(cobra.NoArgs),
	}
	var files Files
	files.Flags(cmd)
	wanted := cmd.Flags().String("interface", "", "interface, `PATH[:REVISION]`")
	stdin := cmd.Flags().Bool("stdin", false, "read interfaces from standard input, one JSON object per line")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case *stdin && *wanted != "":
			return cli.Usagef("--stdin and --interface exclude each other; write it into the JSON lines")
		case *stdin && (files.Policy == "-" || files.Instances == "-"):
			return cli.Usagef("--stdin and a file - would both read standard input")
		case !*stdin && *wanted == "":
			return cli.Usagef("no interface; name it with --interface, or read several with --stdin")
		}
		snapshot, err := files.load(cmd.Context(), s)
		if err != nil {
			return err
		}
		if *stdin {
			return cli.RunLines(cmd.Context(), s, func(_ context.Context, i policy.Ref) (any, error) { return resolve(snapshot, i) })
		}
		result, err := resolve(snapshot, policy.ParseRef(*wanted))
		if v, ok := result.(cli.View); ok {
			if printing := s.Print(v); printing != nil {
				return printing
			}
		}
		return err
	}
	return cmd
}

// resolve returns a *resolvedView, or a *refusedView with an error. Without a path it returns only an error.
func resolve(snapshot *policy.Snapshot, wanted policy.Ref) (any, error) {
	if wanted.Path == "" {
		return nil, &engine.Error{
			Code: engine.CodeInvalidEvent, Err: errors.New("no interface is named"), Hint: "write its path",
		}
	}
	d, err := snapshot.Resolve(wanted)
	if err == nil {
		return resolved(d), nil
	}
	v := &refusedView{Error: cli.LineError{Code: engine.CodeOf(err), Message: err.Error()}}
	if refusal, is := errors.AsType[*policy.Refusal](err); is {
		v.RuleKey, v.rejected = refusal.RuleKey, refusal.Candidates
	}
	return v, err
}
