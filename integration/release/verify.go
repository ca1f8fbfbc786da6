package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
)

// verify returns nil if checksums, provenance and signatures match the key and all files in dir.
func verify(ctx context.Context, dir, public string, out io.Writer) error {
	s, err := publicKey(public)
	if err != nil {
		return err
	}
	all, err := files(dir)
	if err != nil {
		return err
	}
	said, err := os.ReadFile(filepath.Join(dir, sums))
	if err != nil {
		return err
	}
	if !bytes.Equal(said, checksums(all)) {
		return errors.New(sums + " is not of these files")
	}
	all[sums] = said
	for _, name := range names(all) {
		if err := s.signed(ctx, dir, name, all[name]); err != nil {
			return fmt.Errorf("%q: %w", name, err)
		}
	}
	from, err := s.origin(ctx, dir, all)
	if err != nil {
		return fmt.Errorf("%s: %w", provenance, err)
	}
	_, err = fmt.Fprintf(out, "%d files are signed, of commit %q, by %q\n", len(all), from.commit, from.builder)
	return err
}

// signed returns nil if the file's signature exists and is valid.
func (s *signer) signed(ctx context.Context, dir, name string, content []byte) error {
	text, err := os.ReadFile(filepath.Join(dir, name+suffix))
	if err != nil {
		return err
	}
	signature, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text)))
	if err != nil {
		return errSignature
	}
	return s.Verify(ctx, content, signature)
}

// origin reads the provenance. It fails if the provenance is not signed, or describes other files.
func (s *signer) origin(ctx context.Context, dir string, all map[string][]byte) (from origin, err error) {
	text, err := os.ReadFile(filepath.Join(dir, provenance))
	if err != nil {
		return from, err
	}
	var envelope dsse.Envelope
	if err := json.Unmarshal(text, &envelope); err != nil {
		return from, err
	}
	by, err := dsse.NewEnvelopeVerifier(s)
	if err != nil {
		return from, err
	}
	_, payload, err := by.VerifyAndDecode(ctx, &envelope)
	if err != nil {
		return from, err
	}
	var said statement
	if err := json.Unmarshal(payload, &said); err != nil {
		return from, err
	}
	from = origin{said.Predicate.BuildDefinition.ExternalParameters["commit"], said.Predicate.RunDetails.Builder.ID}
	if envelope.PayloadType != payloadType || said.Type != statementIs || said.PredicateType != predicateIs || !reflect.DeepEqual(said.Subject, stated(all, from).Subject) {
		return from, errors.New("it is not of these files")
	}
	return from, nil
}
