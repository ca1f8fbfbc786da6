package repair

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/spelling"
	"github.com/hap-worker/hap-worker/worker/config"
)

// cordonView is an account after cordon or uncordon.
type cordonView struct {
	Binding  string `json:"binding"`
	Pool     string `json:"pool"`
	Tenant   string `json:"tenant,omitempty"`
	Cordoned bool   `json:"cordoned"`
	Changed  bool   `json:"changed"`
}

func (v cordonView) Show(w io.Writer, _ bool) {
	cli.Pairs(w, [][2]string{
		{"BINDING", v.Binding}, {"POOL", v.Pool}, {"TENANT", v.Tenant},
		{"CORDONED", strconv.FormatBool(v.Cordoned)}, {"CHANGED", strconv.FormatBool(v.Changed)},
	})
}

// NewCordon returns the command hapctl cordon.
func NewCordon(s *cli.Shell) *cobra.Command {
	return cordoning(s, true, &cobra.Command{
		Use:   "cordon BINDING",
		Short: "Exclude an account from new assignments",
		Long: `Label an account hap-worker/cordon=true. Workers then neither claim the account nor
put new clusters on it, whether or not a tenant has it. Its present clusters stay,
and workers count them down as usual. 'hapctl bindings -o wide' shows cordoned under
MARKS. Run 'hapctl uncordon' to end it.`,
		Example: `  hapctl cordon aws-7`,
	})
}

// NewUncordon returns the command hapctl uncordon.
func NewUncordon(s *cli.Shell) *cobra.Command {
	return cordoning(s, false, &cobra.Command{
		Use:     "uncordon BINDING",
		Short:   "Allow new assignments to an account again",
		Long:    "Remove the label hap-worker/cordon from an account. Workers then serve the requests\nthat wait for its pool.",
		Example: `  hapctl uncordon aws-7`,
	})
}

func cordoning(s *cli.Shell, on bool, cmd *cobra.Command) *cobra.Command {
	cmd.Args = cli.Arguments(cobra.ExactArgs(1))
	s.CompleteArgument(cmd, cli.LiveAccounts)
	return s.Reader(cmd, "for Gardener", func(ctx context.Context, cfg *config.Config, args []string) error {
		client, tell, err := cli.OpenGardener(ctx, s, cfg.Gardener)
		if err != nil {
			return err
		}
		defer tell()
		if err := s.Beside(ctx, cfg); err != nil {
			return err
		}
		s.Announce(cmd.Name() + " " + args[0])
		b, changed, err := client.Cordon(ctx, args[0], on)
		if coded := (&engine.Error{Code: engine.CodeUnknownBinding}); engine.CodeOf(err) == coded.Code {
			coded.Err, coded.Hint = fmt.Errorf("binding %s is not in Gardener", args[0]), "hapctl bindings lists those that it has"
			return s.Unknown(coded)
		}
		if err != nil {
			return cli.GardenerError(err)
		}
		return s.Print(cordonView{Binding: b.Name, Pool: b.Pool().Name(), Tenant: b.Tenant, Cordoned: b.Cordoned, Changed: changed})
	})
}

// pauseView is a pool after pause or resume. Waiting is the number of its waiting requests.
type pauseView struct {
	Pool    string `json:"pool"`
	Paused  bool   `json:"paused"`
	Changed bool   `json:"changed"`
	Waiting int    `json:"waiting"`
}

func (v pauseView) Show(w io.Writer, _ bool) {
	cli.Pairs(w, [][2]string{
		{"POOL", v.Pool}, {"PAUSED", strconv.FormatBool(v.Paused)}, {"CHANGED", strconv.FormatBool(v.Changed)},
		{"WAITING", strconv.Itoa(v.Waiting)},
	})
}

// NewPause returns the command hapctl pause.
func NewPause(s *cli.Shell) *cobra.Command {
	return pausing(s, true, &cobra.Command{
		Use:   "pause POOL",
		Short: "Make all new requests of a pool wait",
		Long: `Stop new assignments from a pool. New requests wait until their deadline or until you
run 'hapctl resume'; if hap.waiting.timeout is 0, they are refused. Present
assignments stay, and workers still process deprovisions and releases. Redis keeps
the pause: if Redis loses its data, the pause is lost too.`,
		Example: `  hapctl pause aws+eu`,
	})
}

// NewResume returns the command hapctl resume.
func NewResume(s *cli.Shell) *cobra.Command {
	return pausing(s, false, &cobra.Command{
		Use:     "resume POOL",
		Short:   "Allow new assignments from a paused pool again",
		Long:    "End 'hapctl pause'. Within 15 seconds, workers begin to serve the waiting requests\nin turn.",
		Example: `  hapctl resume aws+eu`,
	})
}

func pausing(s *cli.Shell, on bool, cmd *cobra.Command) *cobra.Command {
	cmd.Args = cli.Arguments(cobra.ExactArgs(1))
	s.CompleteArgument(cmd, cli.LivePools)
	return s.Reader(cmd, "for Redis", func(ctx context.Context, cfg *config.Config, args []string) error {
		pool := args[0]
		store, err := cli.OpenRedis(ctx, s, cfg)
		if err != nil {
			return err
		}
		if err := s.Recorded(cfg.Redis); err != nil {
			return err
		}
		known, err := store.Pools(ctx)
		if err != nil {
			return err
		}
		if !slices.Contains(known, pool) {
			return noPool(pool, known)
		}
		before, err := store.Status(ctx, pool)
		if err != nil {
			return err
		}
		if !before.Built {
			return cli.NotBuilt(fmt.Errorf("pool %s is not built", pool), cfg.Redis.URL)
		}
		s.Announce(cmd.Name() + " pool " + pool)
		set := store.Resume
		if on {
			set = store.Pause
		}
		if err := set(ctx, pool); err != nil {
			return err
		}
		return s.Print(pauseView{Pool: pool, Paused: on, Changed: before.Paused != on, Waiting: before.Waiting})
	})
}

func noPool(pool string, known []string) error {
	if meant := spelling.Closest(pool, known); meant != "" {
		return fmt.Errorf("there is no pool %s in Redis, did you mean %s?", pool, meant)
	}
	return fmt.Errorf("there is no pool %s in Redis; it has %s", pool, strings.Join(known, ", "))
}
