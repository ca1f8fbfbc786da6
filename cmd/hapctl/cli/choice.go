package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// Choice is a flag, or an argument, that is one of some words; "" where it was not set.
type Choice struct {
	Of    []string
	Taken string
}

// Words are the values of a type of words.
func Words[W ~string](of ...W) []string {
	texts := make([]string, len(of))
	for i, w := range of {
		texts[i] = string(w)
	}
	return texts
}

// String, Set and Type make it a flag.
func (c *Choice) String() string { return c.Taken }

// Set takes one of the words, or none.
func (c *Choice) Set(text string) error {
	if text != "" && !slices.Contains(c.Of, text) {
		return fmt.Errorf("must be one of %s", strings.Join(c.Of, ", "))
	}
	c.Taken = text
	return nil
}

// Type names the flag's value in help texts.
func (c *Choice) Type() string { return "word" }

// Flag adds it to the flags of a command, whose usage ends with the words.
func (c *Choice) Flag(cmd *cobra.Command, name, usage string) {
	cmd.Flags().Var(c, name, usage+": "+strings.Join(c.Of, ", "))
	MustRegister(cmd, name, cobra.FixedCompletions(c.Of, cobra.ShellCompDirectiveNoFileComp))
}
