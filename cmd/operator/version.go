package operator

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// versionView is what is known of this build.
type versionView struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Go      string `json:"go"`
}

func (v versionView) show(w io.Writer, wide bool) {
	fmt.Fprintf(w, "hapctl %s\n", v.Version)
	if wide {
		pairs(w, [][2]string{{"COMMIT", v.Commit}, {"GO", v.Go}})
	}
}

func newVersion(s *shell) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the version of hapctl",
		Args:  arguments(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			return s.print(builtVersion())
		},
	}
}

// builtVersion reads what the Go tool has written into the program.
func builtVersion() versionView {
	v := versionView{Version: "(devel)", Go: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" {
		v.Version = info.Main.Version
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			v.Commit = setting.Value
		}
	}
	return v
}
