package migrate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/gardener"
	"github.com/hap-worker/hap-worker/gardener/verdict"
	"github.com/hap-worker/hap-worker/worker/config"
)

// renamedBinding is an account with the labels whose keys change.
type renamedBinding struct {
	Name     string             `json:"name"`
	Labels   []gardener.Renamed `json:"labels"`
	Conflict string             `json:"conflict,omitempty"` // why it is left unchanged
	Renamed  bool               `json:"renamed"`            // the new keys were written
}

// labelsView is the result of renaming the labels of a landscape.
type labelsView struct {
	Bindings []renamedBinding `json:"bindings"` // with an older key
	Applied  bool             `json:"applied"`
	Already  int              `json:"already"` // bindings without an older key
	Renamed  int              `json:"renamed"`
	Left     int              `json:"left"` // bindings that still have an older key
}

func (v labelsView) Show(w io.Writer, wide bool) {
	var rows [][]string
	for _, b := range v.Bindings {
		state := "to rename"
		switch {
		case b.Renamed:
			state = "renamed"
		case b.Conflict != "":
			state = "left: " + b.Conflict
		}
		for _, l := range b.Labels {
			rows = append(rows, []string{b.Name, l.From + "=" + l.Value, l.To + "=" + l.Value, state})
		}
	}
	if len(rows) > 0 {
		cli.FittedText(w, wide, []string{"BINDING", "LABEL", "BECOMES", "STATE"}, rows, "LABEL", "BECOMES", "BINDING")
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "renamed: %d; left: %d; with the new keys already: %d\n", v.Renamed, v.Left, v.Already)
}

func newMigrateLabels(s *cli.Shell) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "labels --to KEYS",
		Short: "Rename the labels of accounts",
		Long: `Rename the labels of all accounts from the keys in gardener.labels of --config to the
keys of --to. --to is a preset (default or legacy), or pairs such as tenantName=owner
separated by commas, or both. A pair overrides the preset, or default if there is no
preset. The values of the labels stay. Without --apply, hapctl only shows what it
would rename.

hapctl writes each account once: one patch, against the version that it read, renames
all its labels. You can repeat the command at any time, because it skips accounts
that have the new keys already. If an account has the old and the new key of a label
with different values, hapctl leaves the account unchanged.

Workers find accounts by their label keys. Stop the workers, rename, set
gardener.labels to the new keys, and start the workers. The exit code is 5 if hapctl
left an account unchanged because of a conflict or a concurrent change, or because
Gardener refuses to change it.`,
		Example: `  hapctl migrate labels --config hap-worker.yaml --to default
  hapctl migrate labels --config hap-worker.yaml --to default --apply
  hapctl migrate labels --config hap-worker.yaml --to legacy,dirty=my-dirty`,
		Args: cli.Arguments(cobra.NoArgs),
	}
	to := cmd.Flags().StringSlice("to", nil, "new `keys`: default or legacy, NAME=KEY, or both")
	apply := cmd.Flags().Bool("apply", false, "rename the labels")
	yes := cmd.Flags().Bool("yes", false, "do not ask before the labels are renamed")
	return s.ReaderWithin(cmd, 10*time.Minute, "for Gardener, and for your answer to the question", func(ctx context.Context, cfg *config.Config, _ []string) error {
		keys, err := newKeys(*to)
		if err != nil {
			return err
		}
		client, tell, err := cli.OpenGardener(ctx, s, cfg.Gardener)
		if err != nil {
			return err
		}
		defer tell()
		if err := s.Beside(ctx, cfg); err != nil {
			return err
		}
		all, err := client.Renamings(ctx, keys)
		switch {
		case errors.Is(err, engine.ErrUnavailable):
			return cli.GardenerError(err)
		case err != nil:
			return cli.Usagef("--to %s: %w", strings.Join(*to, ","), err)
		}
		return migrateLabels(ctx, s, client.Rename, all, *apply, *yes)
	})
}

// newKeys returns the keys that --to names, in the form of gardener.Options.Labels: a preset is stored under
// gardener.Preset. It returns a usage error if --to names nothing, or a label or a preset twice.
func newKeys(to []string) (map[string]string, error) {
	keys := map[string]string{}
	for _, item := range cli.Names(to) {
		name, key, pair := strings.Cut(item, "=")
		if !pair {
			name, key = gardener.Preset, item
		}
		if _, twice := keys[name]; twice {
			return nil, cli.Usagef("--to has %s twice", name)
		}
		keys[name] = key
	}
	if len(keys) == 0 {
		return nil, cli.Usagef("no keys; name the new ones with --to, such as --to default")
	}
	return keys, nil
}

// renamer renames the labels of an account, as gardener.Client.Rename does.
type renamer func(context.Context, gardener.Renaming) error

func migrateLabels(ctx context.Context, s *cli.Shell, rename renamer, all []gardener.Renaming, apply, yes bool) error {
	v := labelsView{Bindings: []renamedBinding{}, Applied: apply}
	var todo []gardener.Renaming
	for _, r := range all {
		switch {
		case len(r.Labels) == 0:
			v.Already++
			continue
		case r.Conflict == "":
			todo = append(todo, r)
		}
		v.Bindings = append(v.Bindings, renamedBinding{Name: r.Binding, Labels: r.Labels, Conflict: r.Conflict})
	}
	conflicts := len(v.Bindings) - len(todo)
	var failed error
	if apply && len(todo) > 0 {
		what := "rename the labels of " + cli.Count(len(todo), "account") + " (" + showRenamings(s, todo) + ")"
		if err := s.Confirm(ctx, what+"; workers that still run with the present keys do not find them then", yes); err != nil {
			return err
		}
		var more int
		more, failed = renameLabels(ctx, rename, todo, &v)
		conflicts += more
	}
	v.Left = len(v.Bindings) - v.Renamed
	if err := s.Print(v); err != nil {
		return err
	}
	switch {
	case failed != nil:
		s.Say("accounts left: %d; run the same command again, it goes on where it stopped", v.Left)
		return cli.GardenerError(failed)
	case conflicts > 0:
		s.Say("accounts left: %d; run the same command again once their labels are corrected, or Gardener permits the change", conflicts)
		return cli.Said(cli.ExitConflict)
	}
	return nil
}

// showRenamings shows the accounts that are about to change, and returns which keys become which, for the question.
func showRenamings(s *cli.Shell, todo []gardener.Renaming) string {
	var rows [][]string
	var pairs []string
	for _, r := range todo {
		var labels []string
		for _, l := range r.Labels {
			labels = append(labels, l.From+"="+l.Value)
			if pair := l.From + " to " + l.To; !slices.Contains(pairs, pair) {
				pairs = append(pairs, pair)
			}
		}
		rows = append(rows, []string{r.Binding, strings.Join(labels, ", ")})
	}
	s.ShowAffected([]string{"BINDING", "LABELS"}, rows, "BINDING")
	return strings.Join(pairs, ", ")
}

// renameLabels renames the labels of each account. It counts as conflicts, and goes on after, accounts that were
// changed or deleted concurrently or that Gardener refuses to change. It stops at the first other error.
func renameLabels(ctx context.Context, rename renamer, todo []gardener.Renaming, v *labelsView) (conflicts int, err error) {
	at := 0
	for _, r := range todo {
		for v.Bindings[at].Name != r.Binding {
			at++
		}
		err := rename(ctx, r)
		switch {
		case err == nil:
			v.Bindings[at].Renamed = true
			v.Renamed++
		case errors.Is(err, engine.ErrConflict), engine.CodeOf(err) == engine.CodeUnknownBinding:
			v.Bindings[at].Conflict = "changed concurrently"
			conflicts++
		case errors.Is(err, engine.ErrRefused):
			v.Bindings[at].Conflict = "refused by Gardener: " + cli.OneLineOf(verdict.Said(err))
			conflicts++
		default:
			return conflicts, err
		}
	}
	return conflicts, nil
}
