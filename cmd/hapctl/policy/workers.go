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

// policyWorker is a worker that has said by which policy it decides.
type policyWorker struct {
	Worker string     `json:"worker"`
	Digest string     `json:"digest,omitempty"` // absent for a worker without a policy
	Since  *time.Time `json:"since"`            // when it took that policy over
	Seen   *time.Time `json:"seen"`             // when it last said so
	Same   bool       `json:"same"`             // it is the policy that is shown
}

// policyWorkers reads from Redis which workers decide by the policy with a digest. It is nil
// where no Redis is named or none answers. An *engine.ForeignError for another landscape's.
func policyWorkers(ctx context.Context, s *cli.Shell, cfg *config.Config, digest string) ([]policyWorker, error) {
	if !cfg.Given("redis") {
		return nil, nil
	}
	store, _, err := cli.ReachRedis(ctx, s, cfg)
	var all []policy.InForce
	if err == nil {
		all, err = policies.All(ctx, store)
		err = errors.Join(err, store.Close())
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

func showPolicyWorkers(w io.Writer, workers []policyWorker) {
	rows := make([][]string, len(workers))
	for i, p := range workers {
		has := "another one"
		switch {
		case p.Same:
			has = "this one"
		case p.Digest == "":
			has = "none"
		}
		rows[i] = cli.Dashed([]string{p.Worker, has, p.Digest, p.Since.Format(time.RFC3339), p.Seen.Format(time.RFC3339)})
	}
	cli.Table(w, []string{"WORKER", "HAS", "DIGEST", "SINCE", "SEEN"}, rows)
}
