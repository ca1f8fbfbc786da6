// Package operator holds the commands of hapctl. Each is a separate file; what
// they have in common is in one place each: what a command works with (shell),
// exit codes (exit.go), output (print.go), --stdin (lines.go) and the connections
// (connections.go).
package operator

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

// Run executes hapctl with args, which do not include the program's name, and
// returns its exit code. Data goes to stdout, talk to stderr.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	s := &shell{stdin: stdin, stdout: stream{stdout}, stderr: stream{stderr}, format: formatTable, identity: &identity{}, opened: &opened{}}
	defer s.opened.close()
	root := newRoot(s)
	root.SetArgs(append([]string{}, args...))
	root.SetIn(stdin)
	root.SetOut(s.stdout)
	root.SetErr(s.stderr)
	cmd, err := root.ExecuteContextC(ctx)
	return s.settle(cmd, err)
}

// shell is the environment of a command: its streams, output format and connections.
type shell struct {
	stdin          io.Reader
	stdout, stderr stream
	format         format
	noHeaders      bool // of tables
	connections    connections
	identity       *identity
	opened         *opened
}

// say talks to the user, on stderr.
func (s *shell) say(text string, args ...any) {
	fmt.Fprintf(s.stderr, "hapctl: "+text+"\n", args...)
}

const aboutHapctl = "About hapctl:"

// section is a part of the root's help text.
type section struct {
	title string
	of    []*cobra.Command
}

// sections are the commands of the root, in the order of the help text.
func sections(s *shell) []section {
	return []section{
		{"Requests:", []*cobra.Command{newProvision(s), newDeprovision(s), newRelease(s), newResolve(s)}},
		{"Inspect:", []*cobra.Command{newPools(s), newBindings(s), newRuntimes(s), newWaiting(s), newExplain(s), newSimulate(s), newPlan(s)}},
		{"Act:", []*cobra.Command{newCordon(s), newUncordon(s), newPause(s), newResume(s), newDead(s), newForeign(s), newCounters(s), newLandscape(s), newMigrate(s)}},
		{"Rules and policies:", []*cobra.Command{newRules(s), newNetwork(s), newPolicy(s)}},
		{aboutHapctl, []*cobra.Command{newCompletion(s), newVersion(s)}},
	}
}

func newRoot(s *shell) *cobra.Command {
	root := group("hapctl COMMAND", "Operate hap-worker and publish events to it")
	for _, part := range sections(s) {
		root.AddGroup(&cobra.Group{ID: part.title, Title: part.title})
		for _, cmd := range part.of {
			cmd.GroupID = part.title
			root.AddCommand(cmd)
		}
	}
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: calledAs(os.Args[0])}
	// Cobra's own would link its templates, which keep every method in the program.
	version := root.Flags().Bool("version", false, "show the version of hapctl")
	others := root.RunE
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if *version && len(args) == 0 {
			return s.print(builtVersion())
		}
		return others(cmd, args)
	}
	root.Long = `hapctl operates hap-worker and publishes events to it.

hapctl writes data to standard output and messages to standard error.

Exit codes: 0 success, 1 failure, 2 wrong usage, 3 invalid configuration or another
landscape, 4 no rule matches or the pool is empty, 5 conflict or drift, 124 time-out.`
	root.SilenceErrors, root.SilenceUsage = true, true
	root.PersistentPreRunE = s.checkForm
	root.CompletionOptions.DisableDefaultCmd = true
	help := newHelp(root)
	help.GroupID = aboutHapctl
	root.SetHelpCommand(help)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usagef("%w", err) })
	s.flags(root)
	wholeFlags(root)
	return root
}

// calledAs is the text that a person types to run the program: as a plugin of kubectl it is a file
// with the name kubectl-hap.
func calledAs(program string) string {
	if strings.TrimSuffix(filepath.Base(program), ".exe") == "kubectl-hap" {
		return "kubectl hap"
	}
	return "hapctl"
}

// flags adds the flags that every command has.
func (s *shell) flags(root *cobra.Command) {
	flags := root.PersistentFlags()
	flags.SortFlags = false
	flags.VarP(&s.format, "output", "o", "output format: table, wide, json or yaml; name for lists; json is stable and documented")
	flags.BoolVar(&s.noHeaders, "no-headers", false, "omit the header row of tables")
	s.connections.flags(flags)
	mustRegister(root, "output", cobra.FixedCompletions(allForms, cobra.ShellCompDirectiveNoFileComp))
}

// group is a command that only has others below it.
func group(use, short string, below ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cobra.ArbitraryArgs,

		DisableFlagsInUseLine:      true,
		SuggestionsMinimumDistance: 2,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return bare(cmd)
			}
			return unknownCommand(cmd, args[0])
		},
	}
	cmd.AddCommand(below...)
	return cmd
}

// bare shows the help text of a command that needs another one. It is wrong usage, so the
// text is talk.
func bare(cmd *cobra.Command) error {
	talk := cmd.ErrOrStderr()
	fmt.Fprintf(talk, "hapctl: %s needs a command\n\n", cmd.CommandPath())
	cmd.SetOut(talk)
	if err := cmd.Help(); err != nil {
		return err
	}
	return said(exitUsage)
}

func unknownCommand(cmd *cobra.Command, name string) error {
	if near := cmd.SuggestionsFor(name); len(near) > 0 {
		return usagef("unknown command %q of %s, did you mean %s?", name, cmd.CommandPath(), near[0])
	}
	var known []string
	for _, below := range cmd.Commands() {
		if below.IsAvailableCommand() {
			known = append(known, below.Name())
		}
	}
	return usagef("unknown command %q of %s; it has %s", name, cmd.CommandPath(), strings.Join(known, ", "))
}

// arguments makes a fault in the number of arguments one of usage.
func arguments(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usagef("%w", err)
		}
		return nil
	}
}

func newHelp(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [command]",
		Short: "Show the help text of a command",
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return usagef("no help for %q: there is no such command", args)
			}
			cmd.InitDefaultHelpFlag()
			return cmd.Help()
		},
	}
}

// mustRegister panics where the flag does not exist, which is a fault of the program.
func mustRegister(cmd *cobra.Command, flag string, complete cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic(err)
	}
}
