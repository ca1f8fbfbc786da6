package integration_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hap-worker/hap-worker/cmd/daemon"
	"github.com/hap-worker/hap-worker/counters/blocks"
	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/integration/stack"
)

// mount is a directory of a ConfigMap: its files are links behind a link.
type mount struct {
	t        *testing.T
	dir      string
	versions int
}

// holds swaps in other contents, as the kubelet does.
func (m *mount) holds(files map[string]string) {
	m.t.Helper()
	m.versions++
	old, _ := os.Readlink(filepath.Join(m.dir, "..data"))
	version, next := fmt.Sprintf("..version-%d", m.versions), filepath.Join(m.dir, "..data_tmp")
	err := os.Mkdir(filepath.Join(m.dir, version), 0o700)
	for name, content := range files {
		err = errors.Join(err, os.WriteFile(filepath.Join(m.dir, version, name), []byte(content), 0o600))
		if old == "" {
			err = errors.Join(err, os.Symlink(filepath.Join("..data", name), filepath.Join(m.dir, name)))
		}
	}
	err = errors.Join(err, os.Symlink(version, next), os.Rename(next, filepath.Join(m.dir, "..data")))
	if old != "" {
		err = errors.Join(err, os.RemoveAll(filepath.Join(m.dir, old)))
	}
	if err != nil {
		m.t.Fatal(err)
	}
}

// TestFilesAreFollowed is policy, TypeInstances and network ranges in the mount of a
// ConfigMap, and a catalog in a directory: each is taken over when it changes, and the
// last good one stays where it is invalid.
func TestFilesAreFollowed(t *testing.T) {
	t.Parallel()
	root, err := stack.Root()
	if err != nil {
		t.Fatal(err)
	}
	m := &mount{t: t, dir: t.TempDir()}
	catalog := filepath.Join(t.TempDir(), "catalog")
	if err := os.CopyFS(catalog, os.DirFS(filepath.Join(root, "deploy", "policy", "catalog"))); err != nil {
		t.Fatal(err)
	}
	const aws = "- {id: i-1, typeRef: {path: cap.type.aws.auth.credentials, revision: 0.1.0}}\n"
	const both = aws + "- {id: i-2, typeRef: {path: cap.type.azure.auth.service-principal, revision: 0.1.0}}\n"
	parent := func(cidr string) string {
		return "parentCIDRs: {foo: [" + cidr + "]}\ninjectionRules: [{id: all, injections: [{path: /net, subnetSize: 30}]}]\n"
	}
	content := map[string]string{"policy.yaml": forProvider("aws"), "instances.yaml": aws, "ipam.yaml": parent("10.1.0.0/24")}
	m.holds(content)
	l := newLandscape(t, oneAccountRules+fmt.Sprintf("policy: {catalog: %q, typeInstances: %q, file: %q}\nnetwork: {file: %q}\n",
		catalog, filepath.Join(m.dir, "instances.yaml"), filepath.Join(m.dir, "policy.yaml"), filepath.Join(m.dir, "ipam.yaml")), accounts("aws", 1))
	w := l.work(daemon.Options{})
	resolutions := 0
	// resolves asks until the implementation is of a provider; none where it is "".
	resolves := func(provider string) {
		t.Helper()
		eventually(l.ctx, t, func() error {
			resolutions++
			r := l.resolve(fmt.Sprintf("resolve-%d", resolutions))
			switch {
			case provider == "" && r.Error != nil && r.Error.Code == engine.CodeNoImplementation:
				return nil
			case provider != "" && r.Implementation != nil && r.Implementation.Path == "cap.implementation."+provider+".postgresql.install":
				return nil
			}
			return fmt.Errorf("%s is answered %+v, %+v", provider, r.Implementation, r.Error)
		})
	}
	redis := blocks.New(sources(t, l.stack, l.js, l.subjects).Counters)
	// gets provisions a cluster once Redis has the parent.
	gets := func(id, parent, cidr string) {
		t.Helper()
		eventually(l.ctx, t, func() error {
			state, err := redis.State(l.ctx)
			if text := fmt.Sprint(state.Parents); err == nil && !strings.Contains(text, parent) {
				err = fmt.Errorf("the parents are %s, want %s", text, parent)
			}
			return err
		})
		e := cluster(id, "ga-1", []string{"mcp"}, nil)
		l.provision(e)
		if got := ranges(l.answered(e))["/net"]; got != cidr {
			t.Errorf("%s has %s, want %s", id, got, cidr)
		}
	}
	resolves("aws.rds")
	gets("first", "10.1.0.0/24", "10.1.0.0/30")

	content["policy.yaml"], content["ipam.yaml"] = forProvider("azure"), parent("10.2.0.0/24")
	m.holds(content)
	resolves("") // there is nothing that azure needs
	content["instances.yaml"] = both
	m.holds(content)
	resolves("azure.flexible-server")
	gets("second", "10.2.0.0/24", "10.2.0.0/30")

	l.shows(w, "hap_config_reload_failures_total", "0")
	content["policy.yaml"], content["ipam.yaml"] = "rules: {nonsense: {}}\n", parent("10.3.0.0/33")
	m.holds(content)
	l.shows(w, "hap_config_reload_failures_total", "2")
	resolves("azure.flexible-server")
	gets("third", "10.2.0.0/24", "10.2.0.4/30")

	manifest := filepath.Join(catalog, "implementation", "azure", "flexible-server", "postgresql", "install.yaml")
	good, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	replace := func(content []byte) {
		t.Helper()
		next := catalog + "-next"
		if err := errors.Join(os.WriteFile(next, content, 0o600), os.Rename(next, manifest)); err != nil {
			t.Fatal(err)
		}
	}
	replace([]byte("kind: Nonsense\n"))
	l.shows(w, "hap_config_reload_failures_total", "3")
	resolves("azure.flexible-server")
	if err := os.RemoveAll(filepath.Dir(manifest)); err != nil {
		t.Fatal(err)
	}
	resolves("")
	if err := os.Mkdir(filepath.Dir(manifest), 0o700); err != nil {
		t.Fatal(err)
	}
	replace(good)
	resolves("azure.flexible-server")
}
