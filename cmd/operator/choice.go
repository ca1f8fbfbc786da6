package operator

import (
	"fmt"
	"slices"
	"strings"
)

// choice is a flag, or an argument, that is one of some words; "" where it was not set.
type choice struct {
	of    []string
	taken string
}

// String, Set and Type make it a flag.
func (c *choice) String() string { return c.taken }

// Set takes one of the words.
func (c *choice) Set(text string) error {
	if !slices.Contains(c.of, text) {
		return fmt.Errorf("must be one of %s", strings.Join(c.of, ", "))
	}
	c.taken = text
	return nil
}

// Type names the flag's value in help texts.
func (c *choice) Type() string { return "word" }
