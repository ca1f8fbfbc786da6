package app

import (
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hap-worker/hap-worker/engine/document"
)

// whole is a flag of a whole number. pflag takes 010 for 8; it is refused, as in files and variables.
type whole struct{ pflag.Value }

func (w whole) Set(text string) error {
	if _, err := document.Number(text); err != nil {
		return err
	}
	return w.Value.Set(text)
}

// wholeFlags has all whole numbers among the flags of a command and of those below it read so.
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
