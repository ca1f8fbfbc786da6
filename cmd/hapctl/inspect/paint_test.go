package inspect

import (
	"bytes"
	"strings"
	"testing"

	"github.com/hap-worker/hap-worker/cmd/hapctl/cli"
	"github.com/hap-worker/hap-worker/cmd/hapctl/view"
)

// hapctl's colours reach the terminal; controls in a label do not.
func TestOnlyOwnSequencesPass(t *testing.T) {
	t.Parallel()
	v := poolList{Pools: []PoolView{{Pool: "a\x1b[2Jb\u009b0m", Built: true, Waiting: view.Figure{N: 1}}}}
	var text, out bytes.Buffer
	v.Show(&text, false)
	if err := cli.PaintLines(cli.Stream{To: &out}, text.Bytes(), v, 0); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	if !strings.HasPrefix(lines[1], string(cli.Red)+`a\u001b[2Jb\u009b0m `) || !strings.HasSuffix(lines[1], string(cli.Reset)) || strings.Count(out.String(), "\x1b") != 2 {
		t.Errorf("%q", &out)
	}
}
