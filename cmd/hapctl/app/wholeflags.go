package app

import (
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hap-worker/hap-worker/engine/document"
)

// whole is a flag with a whole number. It refuses a number with a leading zero, as configuration files and
// environment variables do: pflag reads 010 as 8.
type whole struct{ pflag.Value }

func (w whole) Set(text string) error {
	if _, err := document.Number(text); err != nil {
		return err
	}
	return w.Value.Set(text)
}

// wholeFlags makes all flags with whole numbers, of a command and of the commands below it, refuse such
// numbers.
func wholeFlags(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if slices.Contains([]string{"int", "int64", "uint64"}, f.Value.Type()) {
			f.Value = whole{f.Value}
		}
	})
	for _, below := range cmd.Commands() {
		wholeFlags(below)
	}
}
