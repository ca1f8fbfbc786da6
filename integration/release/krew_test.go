package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// unpacked returns the files of an archive, with their modes.
func unpacked(t *testing.T, archive []byte) map[string]string {
	t.Helper()
	zipped, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for files := tar.NewReader(zipped); ; {
		head, err := files.Next()
		if err == io.EOF { //nolint:errorlint // as documented
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(files)
		if err != nil {
			t.Fatal(err)
		}
		found[fmt.Sprintf("%s %o", head.Name, head.Mode)] = string(content)
	}
}

// TestKrew: the manifest has the fields that krew requires, and each archive has its platform's program under
// the plugin's name.
func TestKrew(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "hapctl-linux-amd64", "program 1")
	write(t, dir, "hapctl-linux-amd64.cdx.json", "{}")
	write(t, dir, "hapctl-darwin-arm64", "program 2")
	write(t, dir, "hap-worker-linux-amd64", "another")
	args := []string{"krew", "--dir", dir, "--version", "v1.2.3", "--url", "https://example.org/v1.2.3/", "--license", "../../LICENSE"}
	if err := run(t.Context(), args, io.Discard); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(dir, krewManifest))
	if err != nil {
		t.Fatal(err)
	}
	var p krewPlugin
	if err := yaml.UnmarshalStrict(content, &p); err != nil {
		t.Fatal(err)
	}
	if p.APIVersion != "krew.googlecontainertools.github.com/v1alpha2" || p.Kind != "Plugin" || p.Metadata["name"] != "hap" || p.Spec.Version != "v1.2.3" ||
		p.Spec.ShortDescription == "" || len(p.Spec.ShortDescription) > 50 || p.Spec.Homepage == "" || p.Spec.Description == "" {
		t.Errorf("the manifest is\n%s", content)
	}
	license, err := os.ReadFile("../../LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	var platforms []string
	for _, at := range p.Spec.Platforms {
		name, base := at.Selector.MatchLabels["os"]+"-"+at.Selector.MatchLabels["arch"], path.Base(at.URI)
		platforms = append(platforms, name)
		archive, err := os.ReadFile(filepath.Join(dir, base))
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"linux-amd64": "program 1", "darwin-arm64": "program 2"}[name]
		got := unpacked(t, archive)
		if at.URI != "https://example.org/v1.2.3/kubectl-hap-"+name+".tar.gz" || at.SHA256 != fmt.Sprintf("%x", sha256.Sum256(archive)) || at.Bin != "kubectl-hap" ||
			len(got) != 2 || got["kubectl-hap 755"] != want || got["LICENSE 644"] != string(license) {
			t.Errorf("%+v has %v", at, got)
		}
	}
	slices.Sort(platforms)
	if !slices.Equal(platforms, []string{"darwin-arm64", "linux-amd64"}) {
		t.Errorf("platforms are %q", platforms)
	}
	before, _ := os.ReadFile(filepath.Join(dir, "kubectl-hap-linux-amd64.tar.gz"))
	if err := run(t.Context(), args, io.Discard); err != nil {
		t.Fatal(err)
	}
	if after, _ := os.ReadFile(filepath.Join(dir, "kubectl-hap-linux-amd64.tar.gz")); !bytes.Equal(before, after) {
		t.Error("the same program makes another archive")
	}
	for version, in := range map[string]string{"1.2.3": dir, "v1.2": dir, "v1.2.3\n": dir, "v1.2.3": t.TempDir()} {
		if err := run(t.Context(), []string{"krew", "--dir", in, "--version", version, "--license", "../../LICENSE"}, io.Discard); err == nil {
			t.Errorf("version %q in %s is taken", version, in)
		}
	}
}

// TestReleaseMakesTheManifest: the script runs krew before it sums and signs, so that the
// checksums and signatures are of these files too.
func TestReleaseMakesTheManifest(t *testing.T) {
	t.Parallel()
	script, err := os.ReadFile("../../deploy/release.sh")
	if err != nil {
		t.Fatal(err)
	}
	made, summed := strings.Index(string(script), "./release krew --dir"), strings.Index(string(script), "sha256sum")
	if made < 0 || summed < made {
		t.Error("deploy/release.sh makes no krew manifest before the checksums")
	}
}
