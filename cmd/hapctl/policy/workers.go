package policy

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/counters/policies"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/natural"
	"github.com/hap-worker/hap-worker/engine/policy"
	"github.com/hap-worker/hap-worker/worker/config"
)

// policyWorker is a worker's report of its policy.
type policyWorker struct {
	Worker string     `json:"worker"`
	Digest string     `json:"digest,omitempty"` // absent for a worker without a policy
	Since  *time.Time `json:"since"`            // when it began to use that policy
	Seen   *time.Time `json:"seen"`             // when it last reported
	Same   bool       `json:"same"`             // it is the policy that is shown
}

// policyWorkers returns the workers' reports from Redis. digest is the policy to compare them with. It
// returns nil if Redis is not configured or does not answer, and an *engine.ForeignError if Redis belongs to
// another landscape.
func policyWorkers(ctx context.Context, s *cli.Shell, cfg *config.Config, digest string) ([]policyWorker, error) {
	if !cfg.Given("redis") {
		return nil, nil
	}
	ctx, cancel := cli.Half(ctx)
	defer cancel()
	store, _, err := cli.ReachRedis(ctx, s, cfg)
	var all []policy.InForce
	if err == nil {
		all, err = policies.All(ctx, store)
	}
	if _, foreign := errors.AsType[*engine.ForeignError](err); foreign {
		return nil, err
	}
	if err != nil {
		s.Say("which workers have this policy is not known: %s", cli.OneLineOf(err))
		return nil, nil
	}
	workers := make([]policyWorker, len(all))
	for i, p := range all {
		since, seen := p.Since.Truncate(time.Second), p.Seen.Truncate(time.Second)
		workers[i] = policyWorker{Worker: p.Worker, Digest: p.Digest, Since: &since, Seen: &seen, Same: p.Digest == digest}
	}
	slices.SortFunc(workers, func(a, b policyWorker) int { return natural.Compare(a.Worker, b.Worker) })
	return workers, nil
}

func showPolicyWorkers(w io.Writer, wide bool, workers []policyWorker) {
	rows := make([][]string, len(workers))
	for i, p := range workers {
		has := "another one"
		switch {
		case p.Same:
			has = "this one"
		case p.Digest == "":
			has = "none"
		}
		rows[i] = []string{p.Worker, has, p.Digest, p.Seen.Format(time.RFC3339)}
		if wide {
			rows[i] = append(rows[i], p.Since.Format(time.RFC3339))
		}
		cli.Dashed(rows[i])
	}
	header := []string{"WORKER", "HAS", "DIGEST", "SEEN"}
	if wide {
		header = append(header, "SINCE")
	}
	cli.FittedUnless(w, wide, header, rows, "DIGEST", "WORKER")
}
