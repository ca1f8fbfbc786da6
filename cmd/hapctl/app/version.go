package app

import (
	"cmp"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/worker/build"
)

// versionView describes this build.
type versionView struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Go      string `json:"go"`
}

func (v versionView) Show(w io.Writer, wide bool) {
	fmt.Fprintf(w, "hapctl %s\n", v.Version)
	if wide {
		cli.Pairs(w, [][2]string{{"COMMIT", v.Commit}, {"GO", v.Go}})
	}
}

func newVersion(s *cli.Shell) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the version of hapctl",
		Args:  cli.Arguments(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			return s.Print(builtVersion())
		},
	}
}

// builtVersion returns the version of this program.
func builtVersion() versionView {
	built := build.Read()
	return versionView{Version: cmp.Or(built.Version, "(devel)"), Commit: built.Revision, Go: built.Go}
}
