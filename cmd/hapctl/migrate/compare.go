package migrate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/shadows"
	"github.com/hap-worker/hap-worker/ledger/storage"
	"github.com/hap-worker/hap-worker/worker/config"
)

// comparedView compares one decision of a shadow with the broker's.
type comparedView struct {
	RuntimeID  string                   `json:"runtimeID"`
	RequestID  string                   `json:"requestID"`
	Tenant     string                   `json:"tenant"`
	Plan       string                   `json:"plan"`
	Result     shadows.ComparisonResult `json:"result"`
	Differs    bool                     `json:"differs"`
	Message    string                   `json:"message"`
	ComparedAt time.Time                `json:"comparedAt"`
	Shadow     shadowChoice             `json:"shadow"`
	KEB        *shadows.KEBChoice       `json:"keb,omitempty"`
	Reply      *events.Reply            `json:"reply,omitempty"` // the whole reply, with the decision record
}

// shadowChoice is a short form of the answer that a shadow would have sent.
type shadowChoice struct {
	Status     events.Status `json:"status"`
	Code       engine.Code   `json:"code,omitempty"`
	Binding    string        `json:"binding,omitempty"`
	Pool       string        `json:"pool,omitempty"`
	Rule       string        `json:"rule,omitempty"`
	RuleNumber int           `json:"ruleNumber,omitempty"`
	Origin     string        `json:"origin,omitempty"`
}

func choiceOf(r *events.Reply) shadowChoice {
	c := shadowChoice{Status: r.Status}
	if r.Binding != nil {
		c.Binding = r.Binding.Name
	}
	if r.Error != nil {
		c.Code = r.Error.Code
	}
	if d := r.Decision; d != nil {
		c.Pool, c.Rule, c.RuleNumber, c.Origin = d.Pool, d.Rule, d.RuleNumber, d.Origin
	}
	return c
}

// answer returns the binding, or else the code or status.
func (c shadowChoice) answer() string {
	switch {
	case c.Binding != "":
		return c.Binding
	case c.Code != "":
		return string(c.Code)
	}
	return string(c.Status)
}

func viewOfComparison(c *shadows.Comparison) comparedView {
	r := &c.Reply
	return comparedView{
		RuntimeID: r.RuntimeID, RequestID: r.RequestID, Tenant: r.GlobalAccountID, Plan: r.Plan,
		Result: c.Result, Differs: c.Result.Differs(), Message: c.Message, ComparedAt: c.ComparedAt,
		Shadow: choiceOf(r), KEB: c.KEB, Reply: r,
	}
}

type comparedList struct {
	Comparisons []comparedView                   `json:"comparisons"`
	Summary     map[shadows.ComparisonResult]int `json:"summary"`     // of all that the filters select, also of those not listed
	Compared    int                              `json:"compared"`    // the sum of Summary
	Differences int                              `json:"differences"` // how many of these differ
	Pending     int                              `json:"pending"`     // decisions that are not compared yet, since the broker's are not known
}

func (v comparedList) Show(w io.Writer, wide bool) {
	header := []string{"RUNTIME", "TENANT", "PLAN", "RESULT", "SHADOW", "KEB", "WHY"}
	if wide {
		header = append(header, "REQUEST", "POOL", "RULE", "KEB POOL", "KEB TENANT", "SHOOT", "COMPARED")
	}
	rows := make([][]string, len(v.Comparisons))
	for i, c := range v.Comparisons {
		keb := c.KEB
		if keb == nil {
			keb = &shadows.KEBChoice{}
		}
		row := []string{c.RuntimeID, c.Tenant, c.Plan, string(c.Result), c.Shadow.answer(), keb.Binding, c.Message}
		if wide {
			row = append(row, c.RequestID, c.Shadow.Pool, cli.Numbered(c.Shadow.RuleNumber, c.Shadow.Rule),
				keb.Pool, keb.Tenant, keb.Shoot, c.ComparedAt.Format(time.RFC3339))
		}
		rows[i] = cli.Dashed(row)
	}
	if len(rows) > 0 {
		cli.FittedText(w, wide, header, rows, "TENANT", "RUNTIME", "PLAN", "KEB", "SHADOW")
		fmt.Fprintln(w)
	}
	var sums [][]string
	for _, result := range shadows.ComparisonResults() {
		if n := v.Summary[result]; n > 0 {
			verdict := "agreement"
			if result.Differs() {
				verdict = "difference"
			}
			sums = append(sums, []string{string(result), strconv.Itoa(n), verdict})
		}
	}
	if len(sums) > 0 {
		cli.Table(w, []string{"RESULT", "COUNT", "IS"}, sums)
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "%s, %s; pending: %d\n", cli.Count(v.Compared, "comparison"), cli.Count(v.Differences, "difference"), v.Pending)
}

// comparedFilter selects comparisons: takes selects those that count, lists those of them that are shown.
type comparedFilter struct {
	all                     bool
	since                   time.Duration
	results                 []string
	runtime, tenant, byRule string
}

func (f comparedFilter) takes(v *comparedView, now time.Time) bool {
	return (f.since == 0 || now.Sub(v.ComparedAt) <= f.since) && (f.runtime == "" || v.RuntimeID == f.runtime) &&
		(f.tenant == "" || v.Tenant == f.tenant) && (f.byRule == "" || v.Shadow.Rule == f.byRule)
}

func (f comparedFilter) lists(v *comparedView) bool {
	if len(f.results) > 0 {
		return slices.Contains(f.results, string(v.Result))
	}
	return f.all || v.Differs
}

func (f comparedFilter) check() error {
	if f.since < 0 {
		return cli.Usagef("--since is %s, must not be negative", f.since)
	}
	known := resultNames()
	for _, r := range f.results {
		if !slices.Contains(known, r) {
			return cli.Usagef("--result %s: the results are %s", r, strings.Join(known, ", "))
		}
	}
	return nil
}

func resultNames() []string {
	var names []string
	for _, r := range shadows.ComparisonResults() {
		names = append(names, string(r))
	}
	return names
}

func newMigrateCompare(s *cli.Shell) *cobra.Command {
	var f comparedFilter
	cmd := &cobra.Command{
		Use:   "compare",
		Short: "Show where a shadow and the broker decided differently",
		Long: `Show each runtime for which a shadow (worker.mode: shadow) decided differently from
the broker: both decisions, and why they count as a difference. Below them, hapctl
shows how many comparisons had which result. -o json includes the decision record of
each: the rule, the accounts that were considered, and why each was rejected.

Comparisons are kept for 90 days. A decision is compared once the runtime's Shoot
exists, or after worker.shadow.patience without one; until then it counts as pending.

The exit code is 5 if the comparisons that --since, --runtime, --tenant and --rule
select contain a difference.`,
		Example: `  hapctl migrate compare --config hap-worker.yaml
  hapctl migrate compare --since 24h --result other-pool -o wide
  hapctl migrate compare --runtime 3fa2c1 --all -o json`,
		Args: cli.Arguments(cobra.NoArgs),
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.all, "all", false, "also list agreements")
	flags.DurationVar(&f.since, "since", 0, "show only comparisons of this last period, such as 24h (default: all)")
	flags.StringSliceVar(&f.results, "result", nil, "list only comparisons with these `results`, separated by commas")
	flags.StringVar(&f.runtime, "runtime", "", "show only comparisons of the runtime `id`")
	flags.StringVar(&f.tenant, "tenant", "", "show only comparisons of the global account `id`")
	flags.StringVar(&f.byRule, "rule", "", "show only comparisons that the shadow decided by the `rule`, spelled as in the configuration")
	s.Reader(cmd, "for NATS", func(ctx context.Context, cfg *config.Config, _ []string) error {
		return migrateCompare(ctx, s, cfg, f)
	})
	timed := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := f.check(); err != nil {
			return err
		}
		return timed(cmd, args)
	}
	return cmd
}

func migrateCompare(ctx context.Context, s *cli.Shell, cfg *config.Config, f comparedFilter) error {
	nc, err := cli.OpenNATS(ctx, s, cfg.NATS)
	if err != nil {
		return err
	}
	subjects, err := events.NewSubjects(cfg.NATS.Prefix)
	if err != nil {
		return err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	stream, err := js.Stream(ctx, subjects.Shadow().Stream(events.StreamReplies))
	if err == nil {
		err = s.ShadowsLedgerIs(stream.CachedInfo().Config, cfg)
	}
	if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return err
	}
	v, err := readComparisons(ctx, js, subjects.Shadow(), f, time.Now())
	if err != nil {
		return err
	}
	if err := s.PrintSome(v, v.Compared+v.Pending, "comparisons"); err != nil {
		return err
	}
	if v.Differences > 0 {
		return cli.Said(cli.ExitConflict)
	}
	return nil
}

func readComparisons(ctx context.Context, js jetstream.JetStream, shadow events.Subjects, f comparedFilter, now time.Time) (comparedList, error) {
	v := comparedList{Comparisons: []comparedView{}, Summary: map[shadows.ComparisonResult]int{}}
	if _, err := js.Stream(ctx, events.StreamComparisons); errors.Is(err, jetstream.ErrStreamNotFound) {
		return v, fmt.Errorf("there is no stream %s: no shadow has run here; start one with worker.mode: shadow", events.StreamComparisons)
	}
	compared := map[string]bool{}
	err := shadows.NewComparisons(js, shadow).Each(ctx, func(c shadows.Comparison) error {
		one := viewOfComparison(&c)
		compared[shadow.Reply(one.RuntimeID, one.RequestID)] = true
		if !f.takes(&one, now) {
			return nil
		}
		v.Compared++
		v.Summary[one.Result]++
		if one.Differs {
			v.Differences++
		}
		if f.lists(&one) {
			v.Comparisons = append(v.Comparisons, one)
		}
		return nil
	})
	if err != nil {
		return v, err
	}
	err = storage.NewLedger(js, shadow, "hapctl").Each(ctx, func(stored events.Stored) error {
		r := stored.Reply
		one := comparedView{RuntimeID: r.RuntimeID, Tenant: r.GlobalAccountID, ComparedAt: now, Shadow: choiceOf(&r)}
		if r.Comparable() && !compared[stored.Subject] && f.takes(&one, now) {
			v.Pending++
		}
		return nil
	})
	return v, err
}
