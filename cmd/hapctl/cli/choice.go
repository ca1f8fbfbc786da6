package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// Choice is a flag, or an argument, that takes one of the words in Of. Taken is "" if it was not set.
type Choice struct {
	Of    []string
	Taken string
}

// Words returns words of a string type as strings.
func Words[W ~string](of ...W) []string {
	texts := make([]string, len(of))
	for i, w := range of {
		texts[i] = string(w)
	}
	return texts
}

// String returns the word that was set.
func (c *Choice) String() string { return c.Taken }

// Set accepts one of the words, or "".
func (c *Choice) Set(text string) error {
	if text != "" && !slices.Contains(c.Of, text) {
		return fmt.Errorf("must be one of %s", strings.Join(c.Of, ", "))
	}
	c.Taken = text
	return nil
}

// Type names the flag's value in help texts.
func (c *Choice) Type() string { return "word" }

// Flag adds the choice to the flags of a command. It appends the words to usage, and completes them.
func (c *Choice) Flag(cmd *cobra.Command, name, usage string) {
	cmd.Flags().Var(c, name, usage+": "+strings.Join(c.Of, ", "))
	MustRegister(cmd, name, cobra.FixedCompletions(c.Of, cobra.ShellCompDirectiveNoFileComp))
}
