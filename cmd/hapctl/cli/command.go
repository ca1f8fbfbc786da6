package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Group returns a command that only groups the commands below it. To call it without one of these commands, or with an
// unknown one, is wrong usage.
func Group(use, short string, below ...*cobra.Command) *cobra.Command {
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

// bare shows the help text of a command that needs a command below it. That is wrong usage, so the text goes
// to standard error.
func bare(cmd *cobra.Command) error {
	talk := cmd.ErrOrStderr()
	fmt.Fprintf(talk, "hapctl: %s needs a command\n\n", cmd.CommandPath())
	cmd.SetOut(talk)
	if err := cmd.Help(); err != nil {
		return err
	}
	return Said(ExitUsage)
}

func unknownCommand(cmd *cobra.Command, name string) error {
	if near := cmd.SuggestionsFor(name); len(near) > 0 {
		return Usagef("unknown command %q of %s, did you mean %s?", name, cmd.CommandPath(), near[0])
	}
	var known []string
	for _, below := range cmd.Commands() {
		if below.IsAvailableCommand() {
			known = append(known, below.Name())
		}
	}
	return Usagef("unknown command %q of %s; it has %s", name, cmd.CommandPath(), strings.Join(known, ", "))
}

// Arguments returns a check whose errors are usage errors.
func Arguments(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return Usagef("%w", err)
		}
		return nil
	}
}

// RowOrFlags permits one argument at most, which names one row of a list, or flags that select rows, not both.
func RowOrFlags(argument string, flags ...string) cobra.PositionalArgs {
	return Arguments(func(cmd *cobra.Command, args []string) error {
		for _, name := range flags {
			if len(args) > 0 && cmd.Flags().Changed(name) {
				return fmt.Errorf("%s and --%s exclude each other: the flag selects rows of the list", argument, name)
			}
		}
		return cobra.MaximumNArgs(1)(cmd, args)
	})
}

// MustRegister registers the completion of a flag. It panics if the flag does not exist or already has a completion:
// both are bugs.
func MustRegister(cmd *cobra.Command, flag string, complete cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic(err)
	}
}
