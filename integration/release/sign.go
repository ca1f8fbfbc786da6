package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
)

const (
	sums        = "SHA256SUMS"
	provenance  = "provenance.intoto.json"
	suffix      = ".sig"
	payloadType = "application/vnd.in-toto+json"
	statementIs = "https://in-toto.io/Statement/v1"
	predicateIs = "https://slsa.dev/provenance/v1"
	source      = "https://github.com/hap-worker/hap-worker"
)

// origin is the commit and the builder of a release.
type origin struct{ commit, builder string }

// statement is a SLSA 1.0 provenance in in-toto form.
type statement struct {
	Type          string    `json:"_type"`
	Subject       []subject `json:"subject"`
	PredicateType string    `json:"predicateType"`
	Predicate     predicate `json:"predicate"`
}

type subject struct {
	Name   string            `json:"name"`
	Digest map[string]string `json:"digest"`
}

type predicate struct {
	BuildDefinition struct {
		BuildType            string            `json:"buildType"`
		ExternalParameters   map[string]string `json:"externalParameters"`
		ResolvedDependencies []dependency      `json:"resolvedDependencies"`
	} `json:"buildDefinition"`
	RunDetails struct {
		Builder struct {
			ID string `json:"id"`
		} `json:"builder"`
	} `json:"runDetails"`
}

type dependency struct {
	URI    string            `json:"uri"`
	Digest map[string]string `json:"digest,omitempty"`
}

// files returns the files of a release by name, without checksums, provenance and signatures. A signature of a file
// that is not there, or that has none, is an error.
func files(dir string) (map[string][]byte, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	found := map[string][]byte{}
	var signatures []string
	for _, e := range entries {
		switch name := e.Name(); {
		case !e.Type().IsRegular():
			return nil, fmt.Errorf("%q in the release is no regular file", name)
		case name == sums || name == provenance:
		case strings.HasSuffix(name, suffix):
			signatures = append(signatures, name)
		default:
			if found[name], err = os.ReadFile(filepath.Join(dir, name)); err != nil {
				return nil, err
			}
		}
	}
	for _, name := range signatures {
		of := strings.TrimSuffix(name, suffix)
		if _, is := found[of]; !is && of != sums {
			return nil, fmt.Errorf("%q is the signature of no file of the release", name)
		}
	}
	if len(found) == 0 {
		return nil, errors.New("there is nothing to sign")
	}
	return found, nil
}

// sign writes checksums and provenance of the files in dir, and their signatures.
func sign(ctx context.Context, dir, key string, from origin, out io.Writer) error {
	s, err := privateKey(key)
	if err != nil {
		return err
	}
	all, err := files(dir)
	if err != nil {
		return err
	}
	all[sums] = checksums(all)
	envelope, err := s.enveloped(ctx, stated(all, from))
	if err != nil {
		return err
	}
	write := map[string][]byte{sums: all[sums], provenance: envelope}
	for name, content := range all {
		if write[name+suffix], err = s.detached(ctx, content); err != nil {
			return err
		}
	}
	for name, content := range write {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil { //nolint:gosec // for everybody to read
			return err
		}
	}
	_, err = fmt.Fprintf(out, "signed %d files of %s\n", len(all), from.commit)
	return err
}

// checksums returns the checksums in the format of sha256sum --check.
func checksums(all map[string][]byte) []byte {
	var text strings.Builder
	for _, name := range names(all) {
		fmt.Fprintf(&text, "%x  %s\n", sha256.Sum256(all[name]), name)
	}
	return []byte(text.String())
}

func names(all map[string][]byte) (sorted []string) {
	for name := range all {
		sorted = append(sorted, name)
	}
	slices.Sort(sorted)
	return sorted
}

func stated(all map[string][]byte, from origin) statement {
	s := statement{Type: statementIs, PredicateType: predicateIs}
	for _, name := range names(all) {
		s.Subject = append(s.Subject, subject{name, map[string]string{"sha256": fmt.Sprintf("%x", sha256.Sum256(all[name]))}})
	}
	d := &s.Predicate.BuildDefinition
	d.BuildType = source + "/blob/main/docs/release.md"
	d.ExternalParameters = map[string]string{"source": source, "commit": from.commit}
	d.ResolvedDependencies = []dependency{
		{URI: "git+" + source + "@" + from.commit, Digest: map[string]string{"gitCommit": from.commit}},
		{URI: "pkg:golang/std@" + runtime.Version()},
	}
	s.Predicate.RunDetails.Builder.ID = from.builder
	return s
}

// enveloped returns the statement in a signed envelope.
func (s *signer) enveloped(ctx context.Context, what statement) ([]byte, error) {
	payload, err := json.Marshal(what)
	if err != nil {
		return nil, err
	}
	by, err := dsse.NewEnvelopeSigner(s)
	if err != nil {
		return nil, err
	}
	envelope, err := by.SignPayload(ctx, payloadType, payload)
	if err != nil {
		return nil, err
	}
	return json.Marshal(envelope)
}
