package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

const (
	plugin       = "kubectl-hap"
	krewManifest = "krew-hap.yaml"
)

// krewVersion matches the versions that krew accepts.
var krewVersion = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`)

// krewPlugin is a manifest of krew, version v1alpha2.
type krewPlugin struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   map[string]string `json:"metadata"`
	Spec       krewSpec          `json:"spec"`
}

type krewSpec struct {
	Version          string         `json:"version"`
	Homepage         string         `json:"homepage"`
	ShortDescription string         `json:"shortDescription"`
	Description      string         `json:"description"`
	Platforms        []krewPlatform `json:"platforms"`
}

type krewPlatform struct {
	Selector struct {
		MatchLabels map[string]string `json:"matchLabels"`
	} `json:"selector"`
	URI    string `json:"uri"`
	SHA256 string `json:"sha256"`
	Bin    string `json:"bin"`
}

// krew packs the hapctl of each platform as kubectl-hap, and writes the manifest with which
// krew installs the archives from url. The same programs always result in the same archives.
func krew(dir, version, url, license string) error {
	if !krewVersion.MatchString(version) {
		return fmt.Errorf("krew does not accept the version %q; use one such as v1.2.3", version)
	}
	programs, err := filepath.Glob(filepath.Join(dir, "hapctl-*-*"))
	if err != nil {
		return err
	}
	p := krewPlugin{APIVersion: "krew.googlecontainertools.github.com/v1alpha2", Kind: "Plugin", Metadata: map[string]string{"name": "hap"}}
	p.Spec = krewSpec{
		Version: version, Homepage: source, ShortDescription: "Operate hap-worker: pools, accounts, requests",
		Description: "What hyperscaler accounts are free, in use, waited for and dirty; why a runtime has\nwhat it has, or waits; requests, dead letters, holds, and forecasts. The same program\nas hapctl.\n",
	}
	for _, path := range programs {
		platform := strings.Split(strings.TrimPrefix(filepath.Base(path), "hapctl-"), "-")
		if len(platform) != 2 || strings.Contains(platform[1], ".") {
			continue // a bill of materials or a signature
		}
		archive, err := packed(path, license)
		if err != nil {
			return err
		}
		name := plugin + "-" + platform[0] + "-" + platform[1] + ".tar.gz"
		if err := os.WriteFile(filepath.Join(dir, name), archive, 0o644); err != nil { //nolint:gosec // a release is read by all
			return err
		}
		at := krewPlatform{URI: strings.TrimSuffix(url, "/") + "/" + name, SHA256: fmt.Sprintf("%x", sha256.Sum256(archive)), Bin: plugin}
		at.Selector.MatchLabels = map[string]string{"os": platform[0], "arch": platform[1]}
		p.Spec.Platforms = append(p.Spec.Platforms, at)
	}
	if len(p.Spec.Platforms) == 0 {
		return errors.New("there is no hapctl-OS-ARCH in " + dir)
	}
	manifest, err := yaml.Marshal(p)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, krewManifest), manifest, 0o644) //nolint:gosec // as above
}

// packed returns an archive with the program, named as the plugin, and the license.
func packed(program, license string) ([]byte, error) {
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	files := tar.NewWriter(zipped)
	for _, f := range []struct {
		name, from string
		mode       int64
	}{{plugin, program, 0o755}, {"LICENSE", license, 0o644}} {
		content, err := os.ReadFile(f.from)
		if err != nil {
			return nil, err
		}
		head := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(content)), ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR}
		if err := files.WriteHeader(head); err != nil {
			return nil, err
		}
		if _, err := files.Write(content); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(files.Close(), zipped.Close()); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
