package cmd_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	// A result of these tests is cached until the test's own program changes. With
	// these two it changes whenever the programs do.
	_ "github.com/hap-worker/hap-worker/cmd/daemon"
	_ "github.com/hap-worker/hap-worker/cmd/hapctl/app"
)

// maxBytes bounds the programs that `make build` builds, about 2 % above their sizes when the bounds were
// set: hap-worker had 40.8 MB, 0.7 of them for the page's login at an issuer, hapctl 23.2 MB. hapctl contains
// the worker, for simulations. The names of all characters take 1.0 MB of each; they stay on the disk until a
// fault names one. Much of a worker's resident memory is its own file, see "Memory" in docs/performance.md.
var maxBytes = map[string]int64{
	"hap-worker": 41_600_000,
	"hapctl":     23_700_000,
}

// spare is how many packages, in per cent, a program may link beyond its list: an upgrade of a library adds a
// package or two.
const spare = 2

// typedClients are the packages that client-go generates for each kind of Kubernetes, and the packages that
// link all of them. gardener/kube/informer.go avoids them.
var typedClients = []string{
	"k8s.io/api",
	"k8s.io/client-go/applyconfigurations",
	"k8s.io/client-go/dynamic/dynamicinformer",
	"k8s.io/client-go/informers",
	"k8s.io/client-go/kubernetes",
	"k8s.io/client-go/listers",
	"k8s.io/client-go/metadata/metadatainformer",
}

// target is the platform of the bounds, since sizes differ between platforms. The programs are built without
// the commit, which has no part in the size.
var target = []string{"GOOS=linux", "GOARCH=amd64", "GOAMD64=v1", "CGO_ENABLED=0", "GOFLAGS=" + os.Getenv("GOFLAGS") + " -buildvcs=false"}

func TestNoTypedClientIsLinked(t *testing.T) {
	t.Parallel()
	for program := range maxBytes {
		for _, linked := range linkedBy(t, program) {
			if slices.ContainsFunc(typedClients, func(p string) bool { return linked == p || strings.HasPrefix(linked, p+"/") }) {
				t.Errorf("%s links %s: use the metadata or the dynamic client with an informer of gardener/kube/informer.go", program, linked)
			}
		}
	}
}

// A new package adds its size, its vulnerabilities and its upgrades. The lists in testdata/linked are the
// packages of other modules when the bound was last raised.
func TestLinkedPackagesAreBounded(t *testing.T) {
	t.Parallel()
	for program := range maxBytes {
		linked, file := linkedBy(t, program), filepath.Join("testdata", "linked", program+".txt")
		if os.Getenv("UPDATE_LINKED") != "" {
			if err := os.WriteFile(file, []byte(strings.Join(linked, "\n")+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		known := strings.Fields(string(content))
		if bound := len(known) * (100 + spare) / 100; len(linked) > bound {
			came := slices.DeleteFunc(linked, func(p string) bool { return slices.Contains(known, p) })
			t.Errorf("%s links more than %d packages of other modules, the bound. These are not in %s:\n  %s\n"+
				"Where they are worth it, raise the bound: UPDATE_LINKED=1 go test ./cmd -run TestLinkedPackagesAreBounded",
				program, bound, file, strings.Join(came, "\n  "))
		}
	}
}

func TestToolProgramsStaySmall(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run(t, "make", "build", "BIN="+dir)
	for program, bound := range maxBytes {
		built, err := os.Stat(filepath.Join(dir, program))
		if err != nil {
			t.Fatal(err)
		}
		if built.Size() > bound {
			t.Errorf("%s has %d bytes, more than %d, the bound. Which packages came in: go list -deps ./cmd/%s, before and after. "+
				"What is large: go tool nm -size -sort size, of a program built without -ldflags. "+
				"Where the growth is worth it, raise maxBytes in cmd/size_test.go", program, built.Size(), bound, program)
		}
		if built.Size() < bound*9/10 {
			t.Errorf("%s has %d bytes, its bound is %d: lower maxBytes in cmd/size_test.go, or what was gained is lost unseen", program, built.Size(), bound)
		}
	}
}

// linkedBy returns the packages of other modules that a program links, sorted, without the standard
// library's.
func linkedBy(t *testing.T, program string) []string {
	t.Helper()
	out := run(t, "go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "./cmd/"+program)
	linked := slices.DeleteFunc(strings.Fields(out), func(p string) bool { return strings.HasPrefix(p, module) })
	if len(linked) == 0 {
		t.Fatalf("go list found no package of another module in %s", program)
	}
	slices.Sort(linked)
	return linked
}

// run runs a command in the root of the module, for the target.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), name, args...)
	var said strings.Builder
	c.Dir, c.Env, c.Stderr = "..", append(os.Environ(), target...), &said
	out, err := c.Output()
	if err != nil {
		t.Fatal(fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, said.String()))
	}
	return string(out)
}
