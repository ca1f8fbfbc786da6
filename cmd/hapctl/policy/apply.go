package policy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/hap-worker/hap-worker/cmd/connect"
	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/policy"
	"github.com/hap-worker/hap-worker/gardener/policyconfig"
	"github.com/hap-worker/hap-worker/gardener/verdict"
	"github.com/hap-worker/hap-worker/worker/config"
)

// policyChangeView is the result of apply and rollback. docs/hapctl.md documents its fields.
type policyChangeView struct {
	Namespace       string `json:"namespace"`
	Name            string `json:"name"`
	Server          string `json:"server"`
	Key             string `json:"key"`
	ResourceVersion string `json:"resourceVersion"` // after the change; before it with --dry-run
	Changed         bool   `json:"changed"`
	DryRun          bool   `json:"dryRun"`
	Kept            bool   `json:"kept"` // rollback can return to another version, with --dry-run after the change
	policyDiffView
}

func (v policyChangeView) Show(w io.Writer, wide bool) {
	cli.Pairs(w, [][2]string{
		{"POLICY", fmt.Sprintf("ConfigMap %s/%s at %s", v.Namespace, v.Name, v.Server)}, {"KEY", v.Key}, {"RESOURCE VERSION", v.ResourceVersion},
		{"BEFORE", v.Before}, {"AFTER", v.After}, {"CHANGED", strconv.FormatBool(v.Changed)}, {"KEPT", strconv.FormatBool(v.Kept)},
	})
	if v.DryRun {
		fmt.Fprintln(w, "\nWould change:")
	} else {
		fmt.Fprintln(w)
	}
	v.policyDiffView.Show(w, wide)
}

// policyChange has the flags of apply and rollback.
type policyChange struct {
	yes, dryRun     bool
	resourceVersion string // the version that the ConfigMap must have; "" for any
	files           Files
}

func (c *policyChange) flags(cmd *cobra.Command) {
	c.files.compareFlags(cmd)
	flags := cmd.Flags()
	flags.StringVar(&c.resourceVersion, "resource-version", "", "change the ConfigMap only if it has this `version`, as shown by 'hapctl policy show'")
	flags.BoolVar(&c.yes, "yes", false, "do not ask before the change")
	flags.BoolVar(&c.dryRun, "dry-run", false, "show the change, but do not make it")
}

func newPolicyApply(s *cli.Shell) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "apply FILE",
		Short: "Replace the policy that workers read",
		Long: `Check the policy in FILE, and write it to the ConfigMap that workers read. If the
ConfigMap has changed since hapctl read it, hapctl writes nothing and exits with code
5. hapctl keeps the replaced policy in the ConfigMap, under the key with the suffix
.previous, for 'hapctl policy rollback'. If both policies together exceed the 1 MiB
of a ConfigMap, hapctl does not keep the replaced one.

hapctl prints the change and its target and, on a terminal, asks before it writes.
Without a terminal, --yes is required. The ConfigMap must exist, and you need the
right to get and update it.`,
		Example: `  hapctl policy apply policy.yaml --config hap-worker.yaml --dry-run
  hapctl policy apply policy.yaml --config hap-worker.yaml`,
		Args: cli.Arguments(cobra.ExactArgs(1)),
	}
	var change policyChange
	change.flags(cmd)
	// The time includes the user's answer to the question.
	return s.ReaderWithin(cmd, cli.AuditWithin, "for Gardener, and for your answer to the question", func(ctx context.Context, cfg *config.Config, args []string) error {
		if args[0] == "-" && !change.yes && !change.dryRun {
			return cli.Usagef("a policy from standard input needs --yes: there is no terminal to ask on")
		}
		content, after, err := readPolicy(s, args[0])
		if err != nil {
			return err
		}
		for _, w := range after.Warnings() {
			s.Say("warning: %v", w)
		}
		p, err := changeablePolicy(ctx, s, cfg, &change)
		if err != nil {
			return err
		}
		return changePolicy(ctx, s, cfg, &p, &change, content, after, "the one in "+args[0])
	})
}

func newPolicyRollback(s *cli.Shell) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rollback",
		Short: "Return to the policy before the last apply",
		Long: `Restore the policy that 'hapctl policy apply' replaced. hapctl keeps the present
policy in its place, so another rollback returns to it. hapctl refuses to restore an
invalid policy.

hapctl prints the change and its target and, on a terminal, asks before it writes.
Without a terminal, --yes is required. You need the right to get and update the
ConfigMap.`,
		Example: `  hapctl policy rollback --config hap-worker.yaml --dry-run
  hapctl policy rollback --config hap-worker.yaml`,
		Args: cli.Arguments(cobra.NoArgs),
	}
	var change policyChange
	change.flags(cmd)
	return s.ReaderWithin(cmd, cli.AuditWithin, "for Gardener, and for your answer to the question", func(ctx context.Context, cfg *config.Config, _ []string) error {
		p, err := changeablePolicy(ctx, s, cfg, &change)
		if err != nil {
			return err
		}
		if !p.version.Kept {
			return fmt.Errorf("%s has no previous version to roll back to; apply a file with hapctl policy apply FILE", p.at())
		}
		content := []byte(p.version.Previous)
		after, err := policy.Parse(content)
		if err != nil {
			return connect.InFile(err, "the previous version in "+p.at())
		}
		return changePolicy(ctx, s, cfg, &p, &change, content, after, "the previous version")
	})
}

// changeablePolicy returns the policy that workers read from a ConfigMap. It returns an error if the policy
// is in a file, or if the ConfigMap has another resourceVersion than the flags require.
func changeablePolicy(ctx context.Context, s *cli.Shell, cfg *config.Config, c *policyChange) (policyInForce, error) {
	if file := cfg.Policy.File; file != "" {
		return policyInForce{}, &cli.ExitError{Code: cli.ExitInvalid, Err: fmt.Errorf(
			"workers of this configuration read the policy from %s: change that file; they follow it", file)}
	}
	p, err := readInForce(ctx, s, cfg)
	if err == nil && c.resourceVersion != "" && c.resourceVersion != p.version.ResourceVersion {
		err = &cli.ExitError{Code: cli.ExitConflict, Err: fmt.Errorf("%s has resourceVersion %s, not %s; nothing was changed; look at it with hapctl policy show",
			p.at(), p.version.ResourceVersion, c.resourceVersion)}
	}
	return p, err
}

// changePolicy replaces the policy p by content, whose parsed form is after, if the user consents. If both
// texts are equal, or with --dry-run, it only prints. with names the new policy in messages.
func changePolicy(ctx context.Context, s *cli.Shell, cfg *config.Config, p *policyInForce, c *policyChange, content []byte, after *policy.Policy, with string) error {
	before, err := policy.Parse(p.content)
	if err != nil {
		s.Say("the policy in the ConfigMap is not valid, workers keep the last valid one; hapctl compares with an empty policy")
	}
	diff, err := readDifference(s, cfg.Policy, c.files, before, after)
	if err != nil {
		return err
	}
	diff.Before, diff.After = policy.Digest(p.content), policy.Digest(content)
	v := policyChangeView{
		Namespace: p.store.Namespace(), Name: p.store.Name(), Server: p.store.Server(), Key: p.version.Target,
		ResourceVersion: p.version.ResourceVersion, DryRun: c.dryRun, Kept: p.version.Keeps(string(content)), policyDiffView: diff,
	}
	if string(content) == string(p.content) {
		v.Kept = p.version.Kept
		return s.Print(v)
	}
	what := fmt.Sprintf("replace the policy in %s (key %s, resourceVersion %s) with %s: %s", p.at(), v.Key, v.ResourceVersion, with, diff.summary())
	if !v.Kept {
		what += "; the present version will not be kept: with both, the ConfigMap would be too large"
	}
	if c.dryRun {
		s.Announce("would " + what)
		return s.Print(v)
	}
	if err := s.Confirm(ctx, what, c.yes); err != nil {
		return err
	}
	written, err := p.store.Write(ctx, p.version, string(content), time.Now())
	switch {
	case errors.Is(err, engine.ErrUnknownResult):
		written, err = p.lookAgain(ctx, s, content, err)
	case err != nil:
		err = p.failed(err)
	}
	if err != nil {
		return err
	}
	v.Changed, v.ResourceVersion = true, written.ResourceVersion
	return s.Print(v)
}

// lookAgain reads the ConfigMap after a Write of content whose answer was lost, so that the user does not repeat a
// rollback that took place, which would undo it. It returns an error unless the ConfigMap has content.
func (p *policyInForce) lookAgain(ctx context.Context, s *cli.Shell, content []byte, lost error) (policyconfig.Version, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cli.ReadWithin) // ctx may be what ended
	defer cancel()
	now, err := p.store.Read(ctx)
	switch {
	case err == nil && now.Found && now.Text == string(content):
		s.Say("the policy was replaced, though the answer was lost (%s)", cli.OneLineOf(verdict.Said(lost)))
		return now, nil
	case err == nil && now.ResourceVersion == p.version.ResourceVersion:
		return now, fmt.Errorf("nothing was changed: %s", cli.OneLineOf(verdict.Said(lost)))
	}
	return now, fmt.Errorf("%s; look at hapctl policy show before you repeat it", cli.OneLineOf(lost))
}
