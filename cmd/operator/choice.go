package operator

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// choice is a flag, or an argument, that is one of some words; "" where it was not set.
type choice struct {
	of    []string
	taken string
}

// words are the values of a type of words.
func words[W ~string](of ...W) []string {
	texts := make([]string, len(of))
	for i, w := range of {
		texts[i] = string(w)
	}
	return texts
}

// String, Set and Type make it a flag.
func (c *choice) String() string { return c.taken }

// Set takes one of the words, or none.
func (c *choice) Set(text string) error {
	if text != "" && !slices.Contains(c.of, text) {
		return fmt.Errorf("must be one of %s", strings.Join(c.of, ", "))
	}
	c.taken = text
	return nil
}

// Type names the flag's value in help texts.
func (c *choice) Type() string { return "word" }

// flag adds it to the flags of a command, whose usage ends with the words.
func (c *choice) flag(cmd *cobra.Command, name, usage string) {
	cmd.Flags().Var(c, name, usage+": "+strings.Join(c.of, ", "))
	mustRegister(cmd, name, cobra.FixedCompletions(c.of, cobra.ShellCompDirectiveNoFileComp))
}
