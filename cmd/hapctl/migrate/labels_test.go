package migrate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/gardener"
	"github.com/hap-worker/hap-worker/gardener/verdict"
)

func olderKeys(names ...string) []gardener.Renaming {
	all := make([]gardener.Renaming, len(names))
	for i, name := range names {
		all[i] = gardener.Renaming{Binding: name, Labels: []gardener.Renamed{{From: "hyperscaler-type", To: "hyperscalerType", Value: "aws"}}}
	}
	return all
}

// TestRefusedRename: an account that Gardener refuses to change does not keep the others from being renamed.
func TestRefusedRename(t *testing.T) {
	t.Parallel()
	var out, talk bytes.Buffer
	s := cli.New(strings.NewReader(""), &out, &talk)
	s.Format = cli.FormatJSON
	rename := func(_ context.Context, r gardener.Renaming) error {
		if r.Binding == "aws-2" {
			return &verdict.Error{Op: "gardener: rename", As: engine.ErrRefused, Err: errors.New("the Secret of aws-2 is gone")}
		}
		return nil
	}
	err := migrateLabels(t.Context(), s, rename, olderKeys("aws-1", "aws-2", "aws-3"), true, true)
	if cli.ExitCode(err) != cli.ExitConflict || !errors.Is(err, cli.ErrSaid) {
		t.Errorf("it ends with %v, exit code %d", err, cli.ExitCode(err))
	}
	var v labelsView
	if err := json.Unmarshal(out.Bytes(), &v); err != nil {
		t.Fatal(err)
	}
	if v.Renamed != 2 || v.Left != 1 || !v.Bindings[2].Renamed || v.Bindings[1].Conflict != "refused by Gardener: the Secret of aws-2 is gone" {
		t.Errorf("the output is %s", out.String())
	}
	if strings.Contains(talk.String(), "where it stopped") || strings.Contains(talk.String(), cli.GardenerSetting) || !strings.Contains(talk.String(), "accounts left: 1; ") {
		t.Errorf("it says\n%s", talk.String())
	}
}

// TestRenameUnavailable: an API that does not answer ends the command, which can be repeated.
func TestRenameUnavailable(t *testing.T) {
	t.Parallel()
	var out, talk bytes.Buffer
	s := cli.New(strings.NewReader(""), &out, &talk)
	rename := func(context.Context, gardener.Renaming) error { return fmt.Errorf("rename: %w", engine.ErrUnavailable) }
	err := migrateLabels(t.Context(), s, rename, olderKeys("aws-1", "aws-2"), true, true)
	if cli.ExitCode(err) != cli.ExitFailure || !strings.Contains(err.Error(), cli.GardenerSetting) || !strings.Contains(talk.String(), "accounts left: 2; run the same command again, it goes on where it stopped") {
		t.Errorf("it ends with %v and says\n%s", err, talk.String())
	}
}

// TestRenameSaysWhat: before hapctl asks, it shows accounts that it would change, and the keys.
func TestRenameSaysWhat(t *testing.T) {
	t.Parallel()
	var talk bytes.Buffer
	s := cli.New(strings.NewReader(""), io.Discard, &talk)
	var names []string
	for n := range 23 {
		names = append(names, fmt.Sprintf("aws-%02d", n))
	}
	if err := migrateLabels(t.Context(), s, nil, olderKeys(names...), true, false); cli.ExitCode(err) != cli.ExitUsage {
		t.Fatal(err)
	}
	rows, _, asked := strings.Cut(talk.String(), "hapctl: and 3 more\nhapctl: rename the labels of 23 accounts (hyperscaler-type to hyperscalerType); workers")
	if !asked || !strings.Contains(rows, "aws-19   hyperscaler-type=aws") || strings.Contains(rows, "aws-20") {
		t.Errorf("it says\n%s", &talk)
	}
}
