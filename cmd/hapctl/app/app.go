// Package app assembles hapctl: the root command with its help and version, and the commands from the
// packages beside this one.
package app

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/cmd/hapctl/inspect"
	"github.com/hap-worker/hap-worker/cmd/hapctl/letters"
	"github.com/hap-worker/hap-worker/cmd/hapctl/migrate"
	"github.com/hap-worker/hap-worker/cmd/hapctl/network"
	"github.com/hap-worker/hap-worker/cmd/hapctl/policy"
	"github.com/hap-worker/hap-worker/cmd/hapctl/repair"
	"github.com/hap-worker/hap-worker/cmd/hapctl/request"
	"github.com/hap-worker/hap-worker/cmd/hapctl/rules"
	"github.com/hap-worker/hap-worker/cmd/hapctl/whatif"
)

// Run executes hapctl with args, which do not include the program's name, and returns its exit code. It
// writes data to stdout and messages to stderr.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	s := cli.New(stdin, stdout, stderr)
	return s.Run(ctx, newRoot(s), args)
}

const aboutHapctl = "About hapctl:"

// section is a part of the root's help text.
type section struct {
	title string
	of    []*cobra.Command
}

// sections returns the commands of the root, without help, in the order of the help text.
func sections(s *cli.Shell) []section {
	return []section{
		{"Requests:", []*cobra.Command{request.NewProvision(s), request.NewDeprovision(s), request.NewRelease(s), request.NewResolve(s)}},
		{"Inspect:", []*cobra.Command{inspect.NewPools(s), inspect.NewBindings(s), inspect.NewRuntimes(s), inspect.NewWaiting(s), inspect.NewExplain(s), whatif.NewSimulate(s), whatif.NewPlan(s)}},
		{"Act:", []*cobra.Command{repair.NewCordon(s), repair.NewUncordon(s), repair.NewPause(s), repair.NewResume(s), letters.New(s), repair.NewForeign(s), repair.NewCounters(s), repair.NewLandscape(s), migrate.New(s)}},
		{"Rules and policies:", []*cobra.Command{rules.New(s), network.New(s), policy.New(s)}},
		{aboutHapctl, []*cobra.Command{newCompletion(s), newVersion(s)}},
	}
}

func newRoot(s *cli.Shell) *cobra.Command {
	root := cli.Group("hapctl COMMAND", "Operate hap-worker and publish events to it")
	for _, part := range sections(s) {
		root.AddGroup(&cobra.Group{ID: part.title, Title: part.title})
		for _, cmd := range part.of {
			cmd.GroupID = part.title
			root.AddCommand(cmd)
		}
	}
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: calledAs(os.Args[0])}
	// Cobra's own version flag would link its templates, for which the linker keeps every method.
	version := root.Flags().Bool("version", false, "show the version of hapctl")
	others := root.RunE
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if *version && len(args) == 0 {
			return s.Print(builtVersion())
		}
		return others(cmd, args)
	}
	root.Long = `hapctl operates hap-worker and publishes events to it.

hapctl writes data to standard output and messages to standard error.

Exit codes: 0 success, 1 failure, 2 wrong usage, 3 invalid configuration or another
landscape, 4 no rule matches, or nothing is free or serves the request, 5 conflict or
drift, 124 time-out.`
	root.CompletionOptions.DisableDefaultCmd = true
	help := newHelp(root)
	help.GroupID = aboutHapctl
	root.SetHelpCommand(help)
	s.Flags(root)
	wholeFlags(root)
	return root
}

// calledAs returns the command that a user types to run the program: as a plugin of kubectl, its file is
// named kubectl-hap.
func calledAs(program string) string {
	if strings.TrimSuffix(filepath.Base(program), ".exe") == "kubectl-hap" {
		return "kubectl hap"
	}
	return "hapctl"
}

func newHelp(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [command]",
		Short: "Show the help text of a command",
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return cli.Usagef("no help for %q: there is no such command", args)
			}
			cmd.InitDefaultHelpFlag()
			return cmd.Help()
		},
	}
}
