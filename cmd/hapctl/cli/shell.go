// Package cli is the common part of hapctl's commands: their environment (Shell), their connections and
// their landscape, exit codes, output for people and programs, --stdin line by line, and completion.
package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// Shell is the environment of a command: its streams, output format and connections.
type Shell struct {
	Stdin          io.Reader
	Stdout, Stderr Stream
	Format         Format
	noHeaders      bool // of tables
	stdinRead      bool // by ReadText
	Connections    Connections
	identity       *identity
	opened         *opened
}

// New returns the environment of a command that writes data to stdout and messages to stderr.
func New(stdin io.Reader, stdout, stderr io.Writer) *Shell {
	return &Shell{Stdin: stdin, Stdout: Stream{stdout}, Stderr: Stream{stderr}, Format: FormatTable, identity: &identity{}, opened: &opened{}}
}

// Run executes root with args, which do not include the program's name. It closes the connections of the
// command, and returns the exit code.
func (s *Shell) Run(ctx context.Context, root *cobra.Command, args []string) int {
	defer s.opened.close()
	root.SilenceErrors, root.SilenceUsage = true, true
	root.PersistentPreRunE = s.checkForm
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return Usagef("%w", err) })
	root.SetArgs(append([]string{}, args...))
	root.SetIn(s.Stdin)
	root.SetOut(s.Stdout)
	root.SetErr(s.Stderr)
	cmd, err := root.ExecuteContextC(ctx)
	return s.settle(cmd, err)
}

// Say writes a message for the user to stderr.
func (s *Shell) Say(text string, args ...any) {
	fmt.Fprintf(s.Stderr, "hapctl: "+text+"\n", args...)
}

// Flags adds the flags of every command.
func (s *Shell) Flags(root *cobra.Command) {
	flags := root.PersistentFlags()
	flags.SortFlags = false
	flags.VarP(&s.Format, "output", "o", "output format: table, wide, json or yaml; name for lists; json is stable and documented")
	flags.BoolVar(&s.noHeaders, "no-headers", false, "omit the header row of tables")
	s.Connections.flags(flags)
	MustRegister(root, "output", cobra.FixedCompletions(allForms, cobra.ShellCompDirectiveNoFileComp))
}
