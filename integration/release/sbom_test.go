package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/CycloneDX/cyclonedx-go"

	"github.com/hap-worker/hap-worker/integration/stack"
)

// built builds hap-worker as `make build` does, from a copy of the sources in a separate
// folder.
func built(t *testing.T) string {
	t.Helper()
	root, err := stack.Root()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, part := range []string{"cmd", "worker", "engine", "events", "ledger", "counters", "gardener", "deploy"} {
		if err := os.CopyFS(filepath.Join(dir, part), os.DirFS(filepath.Join(root, part))); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"go.mod", "go.sum"} {
		content, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags=-s -w", "-o", "bin/hap-worker", "./cmd/hap-worker")
	build.Dir, build.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return filepath.Join(dir, "bin", "hap-worker")
}

// TestToolReproducible builds the program in two folders: the files are the same, and its
// bill names every module that it was linked from.
func TestToolReproducible(t *testing.T) {
	programs := []string{built(t), built(t)}
	var sums [2][sha256.Size]byte
	for i, program := range programs {
		content, err := os.ReadFile(program)
		if err != nil {
			t.Fatal(err)
		}
		sums[i] = sha256.Sum256(content)
		if bytes.Contains(content, []byte(filepath.Dir(program))) {
			t.Errorf("the program names the folder %s", filepath.Dir(program))
		}
	}
	if sums[0] != sums[1] {
		t.Errorf("two builds differ: %x, %x", sums[0], sums[1])
	}
	bill := billOf(t, programs[0])
	named := map[string]int{}
	for _, c := range *bill.Components {
		named[c.Name+"@"+c.Version]++
	}
	info, err := buildinfo.ReadFile(programs[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, module := range info.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		if named[module.Path+"@"+module.Version] != 1 {
			t.Errorf("%s is in the bill %d times", module.Path, named[module.Path+"@"+module.Version])
		}
	}
	if len(named) != len(info.Deps)+1 || named["std@"+info.GoVersion] != 1 {
		t.Errorf("the bill has %d components, the program %d modules besides the standard library", len(named), len(info.Deps))
	}
}

// billOf has the tool of `make sbom` write a program's bill of materials.
func billOf(t *testing.T, program string) (bill cyclonedx.BOM) {
	t.Helper()
	root, err := stack.Root()
	if err != nil {
		t.Fatal(err)
	}
	makefile, errMake := os.ReadFile(filepath.Join(root, "Makefile"))
	script, errScript := os.ReadFile(filepath.Join(root, "deploy", "release.sh"))
	if err := errors.Join(errMake, errScript); err != nil {
		t.Fatal(err)
	}
	tool := regexp.MustCompile(`(?m)^SBOM := (\S+)$`).FindSubmatch(makefile)
	if tool == nil || !bytes.Contains(script, tool[1]) {
		t.Fatal("Makefile and deploy/release.sh do not name the same tool")
	}
	run := exec.CommandContext(t.Context(), "go", "run", string(tool[1]), "bin", "-json", "-std", "-noserial", "-notimestamp", program)
	run.Env = append(os.Environ(), "GOFLAGS=")
	text, err := run.Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := cyclonedx.NewBOMDecoder(bytes.NewReader(text), cyclonedx.BOMFileFormatJSON).Decode(&bill); err != nil {
		t.Fatal(err)
	}
	return bill
}
