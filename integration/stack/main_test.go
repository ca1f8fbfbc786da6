package stack

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/hap-worker/hap-worker/engine/leaktest"
)

// goCache is go's build cache, which follows the HOME that tests change.
var goCache string

func TestMain(m *testing.M) {
	out, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		fmt.Fprintln(os.Stderr, "go env GOCACHE:", err)
		os.Exit(1)
	}
	goCache = strings.TrimSpace(string(out))
	leaktest.Main(m)
}
