package rules

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/engine/rule"
	"github.com/hap-worker/hap-worker/events"
)

// ruleDifference is a group of requests that would get another pool or error code, with their number.
type ruleDifference struct {
	rule.Difference
	Requests *int `json:"requests,omitempty"` // only with --since
}

// ledgerShare counts the ledger's requests since a time, and those of them that would get another pool or error code.
type ledgerShare struct {
	Since  time.Time `json:"since"`
	Read   int       `json:"read"`
	Differ int       `json:"differ"`
}

type rulesDiffView struct {
	Differences []ruleDifference `json:"differences"`
	Ledger      *ledgerShare     `json:"ledger,omitempty"` // only with --since
}

func (v rulesDiffView) Show(w io.Writer, wide bool) {
	if len(v.Differences) == 0 {
		fmt.Fprintln(w, "no difference")
	} else {
		header := []string{"PLAN", "PROVIDER", "PR", "HR", "BEFORE", "AFTER"} // as rules name the regions
		if v.Ledger != nil {
			header = append(header, "REQUESTS")
		}
		if wide {
			header[2], header[3] = "PLATFORM REGION", "HYPERSCALER REGION"
			header = append(header, "RULE BEFORE", "RULE AFTER")
		}
		rows := make([][]string, len(v.Differences))
		for i, d := range v.Differences {
			row := []string{d.Plan, d.Provider, regionNames(d.PlatformRegions), regionNames(d.HyperscalerRegions), wayText(d.Before), wayText(d.After)}
			if d.Requests != nil {
				row = append(row, strconv.Itoa(*d.Requests))
			}
			if wide {
				row = append(row, wayRule(d.Before), wayRule(d.After))
			}
			rows[i] = cli.Dashed(row)
		}
		cli.FittedUnless(w, wide, header, rows, "HR", "PR", "PLAN", "BEFORE", "AFTER")
	}
	if l := v.Ledger; l != nil {
		fmt.Fprintf(w, "\n%s since %s, of which %d would lead elsewhere\n", cli.Count(l.Read, "request"), l.Since.Format(time.RFC3339), l.Differ)
	}
}

func regionNames(regions []string) string { return cmp.Or(strings.Join(regions, ", "), "any") }

func wayText(w rule.Way) string { return cmp.Or(w.Pool, string(w.Code)) }

func wayRule(w rule.Way) string {
	if w.Code != "" {
		return ""
	}
	return cli.Numbered(w.RuleNumber, w.Rule)
}

func newRulesDiff(s *cli.Shell) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "diff OLD NEW",
		Short: "Compare two sets of rules",
		Long: `Show which requests the rules in NEW serve from another pool than the rules in OLD,
or from no pool. hapctl compares all plans with every region that either file names.
(other) means any region that neither file names for the plan, (none) means no
region, and any means all of these. A * in the name of a pool stands for the region
of the request. The two files may have different forms. It does not count as a
difference if another rule leads to the same pool.

With --since, hapctl also counts how many requests of that time would be served from
another pool. It uses the plan, regions and provider that the ledger recorded.
Present assignments do not change; the count shows what similar requests would get.

Plans that are not built in come from hap.plans. A file without hap.plans uses those
of the other file. The exit code is 5 if there is a difference.`,
		Example: `  hapctl rules diff old.yaml new.yaml
  hapctl rules diff hap-worker.yaml new.yaml --since 720h --config hap-worker.yaml`,
		Args: cli.Arguments(cobra.ExactArgs(2)),
	}
	since := cmd.Flags().Duration("since", 0, "also count the ledger's requests of this last period, such as 720h (default: do not read the ledger)")
	timeout := cmd.Flags().Duration("timeout", time.Minute, "time limit for reading the ledger")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case *since < 0:
			return cli.Usagef("--since is %s, must not be negative", *since)
		case *timeout <= 0:
			return cli.Usagef("--timeout is %s, must be positive", *timeout)
		case args[0] == "-" && args[1] == "-":
			return cli.Usagef("OLD and NEW would both be read from standard input")
		}
		compared, err := compareRules(s, args[0], args[1])
		if err != nil {
			return err
		}
		v := rulesDiffView{Differences: make([]ruleDifference, len(compared.Differences))}
		for i, d := range compared.Differences {
			v.Differences[i].Difference = d
		}
		if *since > 0 {
			ctx, cancel := context.WithTimeout(cmd.Context(), *timeout)
			defer cancel()
			if err := countRequests(ctx, s, compared, &v, time.Now().Add(-*since)); err != nil {
				return err
			}
		}
		if err := s.Print(v); err != nil || len(v.Differences) == 0 {
			return err
		}
		return cli.Said(cli.ExitConflict)
	}
	return cmd
}

// compareRules compares two files of rules. No plan needs an entry. A file without hap.plans has those of the other
// file.
func compareRules(s *cli.Shell, before, after string) (*rule.Comparison, error) {
	var files [2]rule.File
	for i, path := range []string{before, after} {
		var err error
		if files[i], err = s.ReadRules(path); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	for i := range files {
		if files[i].Plans == nil {
			files[i].Plans = files[1-i].Plans
		}
	}
	var sets [2]*rule.Ruleset
	for i, path := range []string{before, after} {
		var err error
		if sets[i], err = files[i].Compile(rule.Options{Plans: rule.BuiltinPlans(), Require: []string{}}); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return rule.Compare(sets[0], sets[1])
}

// countRequests sets v.Ledger and the Requests of each difference in v: the number of the ledger's requests since a
// time, and how many of them each difference concerns. It counts only replies with a recorded decision that are
// Comparable.
func countRequests(ctx context.Context, s *cli.Shell, compared *rule.Comparison, v *rulesDiffView, since time.Time) error {
	cfg, err := s.Connections.Settings()
	if err != nil {
		return err
	}
	nc, err := cli.OpenNATS(ctx, s, cfg.NATS)
	if err != nil {
		return err
	}
	subjects, err := events.NewSubjects(cfg.NATS.Prefix)
	if err != nil {
		return err
	}
	ledger, err := cli.OpenLedger(ctx, s, cfg, nc, subjects)
	if err != nil {
		return err
	}
	v.Ledger = &ledgerShare{Since: since.UTC()}
	for i := range v.Differences {
		v.Differences[i].Requests = new(int)
	}
	err = ledger.Each(s.Watched(ctx), func(stored events.Stored) error {
		r := stored.Reply
		if r.Decision == nil || !r.Comparable() || stored.Time.Before(since) {
			return nil
		}
		v.Ledger.Read++
		at, differs := compared.Of(rule.Request{
			Plan: r.Plan, Provider: r.Provider, PlatformRegion: r.Decision.PlatformRegion, HyperscalerRegion: r.Decision.HyperscalerRegion,
		})
		if differs {
			v.Ledger.Differ++
			*v.Differences[at].Requests++
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("reading %s: %w", events.StreamReplies, err)
	}
	return nil
}
