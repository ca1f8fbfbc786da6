package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// keys writes a new pair of keys.
func keys(t *testing.T) (private, public string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	secret, errSecret := x509.MarshalPKCS8PrivateKey(key)
	open, errOpen := x509.MarshalPKIXPublicKey(key.Public())
	dir := t.TempDir()
	private, public = filepath.Join(dir, "key.pem"), filepath.Join(dir, "key.pub")
	if err := errors.Join(errSecret, errOpen,
		os.WriteFile(private, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600),
		os.WriteFile(public, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: open}), 0o600)); err != nil {
		t.Fatal(err)
	}
	return private, public
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func released(t *testing.T, key string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	write(t, dir, "hapctl", "a program")
	write(t, dir, "hapctl.cdx.json", "{}")
	if err := run(t.Context(), []string{"sign", "--dir", dir, "--key", key, "--commit", "abc"}, &bytes.Buffer{}); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestVerify: exactly the signed files are verified.
func TestVerify(t *testing.T) {
	t.Parallel()
	private, public := keys(t)
	otherPrivate, otherPublic := keys(t)
	other := released(t, private)
	for name, c := range map[string]struct {
		change func(t *testing.T, dir string)
		public string
		says   string // "" for verified
	}{
		"as it was":         {func(*testing.T, string) {}, public, ""},
		"another key":       {func(*testing.T, string) {}, otherPublic, "the signature is not that of the key"},
		"a changed file":    {func(t *testing.T, dir string) { write(t, dir, "hapctl", "another") }, public, "is not of these files"},
		"a further file":    {func(t *testing.T, dir string) { write(t, dir, "more", "x") }, public, "is not of these files"},
		"a further .sig":    {func(t *testing.T, dir string) { write(t, dir, "more.sig", "x") }, public, `"more.sig" is the signature of no file`},
		"a .sig of a .sig":  {func(t *testing.T, dir string) { write(t, dir, "hapctl.sig.sig", "x") }, public, "the signature of no file"},
		"a .sig of another": {func(t *testing.T, dir string) { write(t, dir, provenance+".sig", "x") }, public, "the signature of no file"},
		"a file less":       {func(t *testing.T, dir string) { remove(t, dir, "hapctl.cdx.json") }, public, `"hapctl.cdx.json.sig" is the signature of no file`},
		"a file and .sig less": {func(t *testing.T, dir string) {
			remove(t, dir, "hapctl.cdx.json")
			remove(t, dir, "hapctl.cdx.json.sig")
		}, public, "is not of these files"},
		"a signature less":     {func(t *testing.T, dir string) { remove(t, dir, "hapctl.sig") }, public, "hapctl.sig"},
		"another's signature":  {func(t *testing.T, dir string) { copied(t, dir, "hapctl.cdx.json.sig", dir, "hapctl.sig") }, public, "the signature is not that of the key"},
		"changed sums":         {func(t *testing.T, dir string) { write(t, dir, "hapctl", "x"); rewritten(t, dir) }, public, "the signature is not that of the key"},
		"a provenance less":    {func(t *testing.T, dir string) { remove(t, dir, provenance) }, public, provenance},
		"a changed provenance": {func(t *testing.T, dir string) { reworded(t, dir, "abc", "abd") }, public, provenance},
		"others' provenance": {func(t *testing.T, dir string) {
			write(t, other, "x", "y")
			signed(t, other, private)
			copied(t, other, provenance, dir, provenance)
		}, public, "it is not of these files"},
		"all by another": {func(t *testing.T, dir string) { signed(t, dir, otherPrivate) }, public, "the signature is not that of the key"},
		"a link out of the folder": {func(t *testing.T, dir string) {
			if err := os.Symlink("/etc/hostname", filepath.Join(dir, "link")); err != nil {
				t.Fatal(err)
			}
		}, public, "no regular file"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := released(t, private)
			c.change(t, dir)
			var out bytes.Buffer
			err := run(t.Context(), []string{"verify", "--dir", dir, "--public", c.public}, &out)
			if c.says == "" && (err != nil || !strings.Contains(out.String(), `3 files are signed, of commit "abc"`)) {
				t.Errorf("%v: %s", err, out.String())
			}
			if c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("%v, want %q", err, c.says)
			}
		})
	}
}

func remove(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

func copied(t *testing.T, from, name, to, as string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(from, name))
	if err != nil {
		t.Fatal(err)
	}
	write(t, to, as, string(content))
}

func signed(t *testing.T, dir, key string) {
	t.Helper()
	if err := sign(t.Context(), dir, key, origin{commit: "abc"}, &bytes.Buffer{}); err != nil {
		t.Fatal(err)
	}
}

// rewritten updates the checksums after a change of the files.
func rewritten(t *testing.T, dir string) {
	t.Helper()
	all, err := files(dir)
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, sums, string(checksums(all)))
}

// reworded changes a word of the provenance, and keeps its signature.
func reworded(t *testing.T, dir, old, by string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, provenance))
	if err != nil {
		t.Fatal(err)
	}
	var envelope map[string]any
	if err := json.Unmarshal(content, &envelope); err != nil {
		t.Fatal(err)
	}
	payload, err := base64.StdEncoding.DecodeString(envelope["payload"].(string))
	if err != nil {
		t.Fatal(err)
	}
	envelope["payload"] = base64.StdEncoding.EncodeToString(bytes.ReplaceAll(payload, []byte(old), []byte(by)))
	if content, err = json.Marshal(envelope); err != nil {
		t.Fatal(err)
	}
	write(t, dir, provenance, string(content))
}

// TestKeys: the error for an invalid key does not contain the file's content.
func TestKeys(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "text", "geheim")
	write(t, dir, "encrypted", string(pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: []byte("geheim")})))
	for file, says := range map[string]string{"text": "is not in PEM form", "encrypted": "has to be decrypted first", "none": "no such file"} {
		_, err := privateKey(filepath.Join(dir, file))
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "geheim") {
			t.Errorf("%s: %v, want %q", file, err, says)
		}
	}
	for _, args := range [][]string{nil, {"sign"}, {"sign", "--dir", dir}, {"verify", "--dir", dir}, {"check", "--dir", dir, "--key", "x"}, {"verify", "--dir", dir, "--public", "x", "more"}} {
		if err := run(t.Context(), args, &bytes.Buffer{}); !errors.Is(err, errUsage) {
			t.Errorf("%q: %v", args, err)
		}
	}
}

// TestOpenSSL: openssl verifies the signatures, and its keys work.
func TestOpenSSL(t *testing.T) {
	t.Parallel()
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		if os.Getenv("HAP_REQUIRE_ALL") != "" {
			t.Fatal(err)
		}
		t.Log("not run: there is no openssl")
		return
	}
	dir := t.TempDir()
	private, public := filepath.Join(dir, "key.pem"), filepath.Join(dir, "key.pub")
	do := func(args ...string) string {
		out, err := exec.CommandContext(t.Context(), openssl, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("openssl %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	do("ecparam", "-name", "prime256v1", "-genkey", "-out", private)
	do("ec", "-in", private, "-pubout", "-out", public)
	release := released(t, private)
	text, err := os.ReadFile(filepath.Join(release, "hapctl.sig"))
	if err != nil {
		t.Fatal(err)
	}
	signature, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, "sig", string(signature))
	if said := do("dgst", "-sha256", "-verify", public, "-signature", filepath.Join(dir, "sig"), filepath.Join(release, "hapctl")); !strings.Contains(said, "Verified OK") {
		t.Errorf("openssl says %s", said)
	}
}
