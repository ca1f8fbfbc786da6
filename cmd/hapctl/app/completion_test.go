package app

import (
	"bytes"
	"io"
	"testing"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
)

// Programs read the completions unchanged, with escapes where they are needed.
func TestCompletionsPassUnchanged(t *testing.T) {
	t.Parallel()
	root := newRoot(testShell())
	for name, write := range map[string]func(io.Writer) error{
		"bash": func(w io.Writer) error { return root.GenBashCompletionV2(w, true) }, "zsh": root.GenZshCompletion,
		"fish": func(w io.Writer) error { return root.GenFishCompletion(w, true) }, "powershell": root.GenPowerShellCompletionWithDesc,
	} {
		var plainly, out bytes.Buffer
		if err := write(&plainly); err != nil {
			t.Fatal(err)
		}
		if err := write(cli.Stream{To: &out}); err != nil || out.String() != plainly.String() {
			t.Errorf("%s is written otherwise: %v", name, err)
		}
	}
}
