package gardener

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/hap-worker/hap-worker/engine"
)

// Snapshot is a landscape read from files, as kubectl get -o yaml writes them. Like a Client it reads
// only the metadata of a Secret.
type Snapshot struct {
	opts     Options
	kind     kind
	decoder  *decoder
	bindings []*account
	secrets  map[reference]string // by the binding that refers to it; empty unless the resource is Secrets
	shoots   []snapshotShoot
	skipped  int
}

type snapshotShoot struct {
	engine.Shoot
	names reference
}

// NewSnapshot returns an empty Snapshot. Without Options.Namespace it accepts objects of any
// namespace. It returns all faults of opts.
func NewSnapshot(opts Options) (*Snapshot, error) {
	checked := opts.WithDefaults()
	if checked.Namespace == "" {
		checked.Namespace = "any" // Validate requires one; it is not used otherwise
	}
	if err := checked.Validate(); err != nil {
		return nil, err
	}
	renamed, err := labelKeys(opts.Labels)
	if err != nil {
		return nil, err
	}
	checked.Namespace = opts.Namespace
	k := kinds[checked.Resource]
	return &Snapshot{
		opts: checked, kind: k, secrets: map[reference]string{},
		decoder: &decoder{keys: renamed, kind: k.name, namespace: opts.Namespace, warn: checked.Warn},
	}, nil
}

// snapshotObject is the part of an object in a file that is read, whatever its kind.
type snapshotObject struct {
	Kind     string            `json:"kind"`
	Metadata metav1.ObjectMeta `json:"metadata"`
	Items    []json.RawMessage `json:"items"`

	Spec json.RawMessage `json:"spec"`

	references
}

// Read adds the objects of one file: YAML or JSON, objects and lists of objects, in one document or several.
// It skips objects of other kinds and namespaces, and counts them (see Skipped).
func (s *Snapshot) Read(file io.Reader) error {
	documents := yaml.NewYAMLOrJSONDecoder(file, 4096)
	for number := 1; ; number++ {
		var raw json.RawMessage
		err := documents.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = s.add(raw)
		}
		if err != nil {
			return fmt.Errorf("document %d: %w", number, err)
		}
	}
}

var errNoObject = errors.New("is no Kubernetes object: it has no kind; write the file with kubectl get -o yaml")

func (s *Snapshot) add(raw json.RawMessage) error {
	if len(raw) == 0 || string(raw) == "null" {
		return nil // an empty document
	}
	var o snapshotObject
	if err := json.Unmarshal(raw, &o); err != nil {
		return fmt.Errorf("is no Kubernetes object: %w", err)
	}
	switch {
	case o.Kind == "":
		return errNoObject
	case o.Items != nil:
		for i, item := range o.Items {
			if err := s.add(item); err != nil {
				return fmt.Errorf("item %d: %w", i+1, err)
			}
		}
		return nil
	case s.opts.Namespace != "" && o.Metadata.Namespace != "" && o.Metadata.Namespace != s.opts.Namespace:
		s.skipped++
		return nil
	}
	return s.object(&o)
}

func (s *Snapshot) object(o *snapshotObject) error {
	known := false
	if _, labelled := o.Metadata.Labels[s.decoder.keys.hyperscalerType]; labelled && o.Kind == s.kind.name {
		known = true
		b := s.decoder.listed(&object{o.Metadata, o.references})
		b.Namespace = o.Metadata.Namespace
		s.bindings = append(s.bindings, b)
	}
	switch o.Kind {
	case kinds[CredentialsBindings].name, kinds[SecretBindings].name:
		if s.opts.Resource == Secrets {
			known = true
			here := s.opts
			here.Namespace = o.Metadata.Namespace
			if secret := here.secretOf(&o.references); secret != "" {
				s.secrets[reference{o.Kind, o.Metadata.Name}] = secret
			}
		}
	case "Shoot":
		known = true
		read := shoot{Metadata: o.Metadata}
		if len(o.Spec) > 0 {
			if err := json.Unmarshal(o.Spec, &read.Spec); err != nil {
				return fmt.Errorf("the spec of Shoot %s: %w", o.Metadata.Name, err)
			}
		}
		names := s.opts.named(&read)
		s.shoots = append(s.shoots, snapshotShoot{s.opts.shoot(&o.Metadata, names.name), names})
	}
	if !known {
		s.skipped++
	}
	return nil
}

// Skipped returns how many objects were skipped: of other kinds, of other namespaces, and bindings
// without the label of the hyperscaler type.
func (s *Snapshot) Skipped() int { return s.skipped }

// List calls f with each binding. It returns the first error of f.
func (s *Snapshot) List(_ context.Context, f func(engine.Binding) error) error {
	markSame(s.bindings)
	for _, b := range s.bindings {
		if err := f(b.Binding); err != nil {
			return err
		}
	}
	return nil
}

// Shoots calls f with each Shoot, as [Client.Shoots] does. It returns the first error of f.
func (s *Snapshot) Shoots(_ context.Context, f func(engine.Shoot) error) error {
	for _, found := range s.shoots {
		if s.opts.Resource == Secrets {
			found.Binding = s.secrets[found.names]
		}
		if err := f(found.Shoot); err != nil {
			return err
		}
	}
	return nil
}

// Referred is like [Client.Referred], for the objects of the files.
func (s *Snapshot) Referred(context.Context) (func(binding string) bool, error) {
	if s.opts.Resource != Secrets {
		return func(string) bool { return true }, nil
	}
	return referredIn(s.secrets), nil
}
