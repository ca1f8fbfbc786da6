// Package policyconfig watches, reads and changes the ConfigMap that contains a policy.
package policyconfig

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/policy"
	"github.com/hap-worker/hap-worker/gardener/kube"
	"github.com/hap-worker/hap-worker/gardener/verdict"
)

const (
	// PreviousSuffix is appended to the key of a policy to get the key of the previous version.
	PreviousSuffix = ".previous"
	// AnnotationApplied contains the digest of the written policy, and when it was written.
	AnnotationApplied = "hap-worker/policy-applied"

	// mostConfigMapBytes is the API's limit for all values of a ConfigMap together.
	mostConfigMapBytes = 1 << 20

	// requestTimeout bounds one request.
	requestTimeout = 5 * time.Second
)

// The errors of a Store beside those of package engine.
var (
	ErrNoConfigMap = errors.New("there is no such ConfigMap")
	ErrChanged     = errors.New("the ConfigMap has changed since it was read")
	ErrRefused     = errors.New("the API does not accept the change")
)

// Store reads and changes the policy of one ConfigMap: it needs the right to get and
// update the ConfigMap of that name only. It is safe for concurrent use.
type Store struct {
	api     dynamic.ResourceInterface
	server  string
	opts    Options
	timeout time.Duration // of one request
}

// NewStore returns a Store, and sends no request. An empty key stands for the constant Key.
func NewStore(config *rest.Config, namespace, name, key string) (*Store, error) {
	opts := Options{Namespace: namespace, Name: name, Key: key, OnChange: func(string, bool) {}}
	if err := opts.complete(); err != nil {
		return nil, err
	}
	api, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("gardener: %w", err)
	}
	return &Store{api: api.Resource(configMaps).Namespace(namespace), server: config.Host, opts: opts, timeout: requestTimeout}, nil
}

// Namespace returns the namespace of the ConfigMap.
func (p *Store) Namespace() string { return p.opts.Namespace }

// Name returns the name of the ConfigMap.
func (p *Store) Name() string { return p.opts.Name }

// Server returns the address of the API.
func (p *Store) Server() string { return p.server }

// Version is a policy in the ConfigMap, as it was read.
type Version struct {
	Key             string // the key under which the text was found; the configured one if none was found
	Target          string // the key that Write writes
	Text            string
	Found           bool   // there is a policy
	Previous        string // text of the previous version
	Kept            bool   // there is a previous version
	ResourceVersion string
	Since           time.Time // when the text was written; zero if unknown

	object *unstructured.Unstructured
}

// Read returns the policy and its previous version. Errors: ErrNoConfigMap, ErrRefused, engine.ErrUnavailable.
func (p *Store) Read(ctx context.Context) (Version, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	o, err := p.api.Get(ctx, p.opts.Name, metav1.GetOptions{})
	if err != nil {
		return Version{}, judged("get", p.opts, err, false)
	}
	return p.version(o), nil
}

func (p *Store) version(o *unstructured.Unstructured) Version {
	data, _, _ := unstructured.NestedStringMap(o.Object, "data") // without data, and so without a policy, if any value is no text
	v := Version{Key: p.opts.Key, ResourceVersion: o.GetResourceVersion(), Target: p.opts.Key, object: o}
	if v.Text, v.Found = data[v.Key]; !v.Found {
		if v.Text, v.Found = data[OlderKey]; v.Found {
			v.Key = OlderKey
		}
	}
	v.Previous, v.Kept = data[p.opts.Key+PreviousSuffix]
	v.Since = since(o, v)
	return v
}

// since returns when the text was written: the time in the annotation if its digest is of this text,
// else the time at which a manager of the fields last wrote the key, zero if no time is known.
func since(o *unstructured.Unstructured, v Version) time.Time {
	digest, at, _ := strings.Cut(o.GetAnnotations()[AnnotationApplied], " ")
	if written, err := time.Parse(time.RFC3339, at); err == nil && digest == policy.Digest([]byte(v.Text)) {
		return written
	}
	var last time.Time
	for _, entry := range o.GetManagedFields() {
		var fields struct {
			Data map[string]json.RawMessage `json:"f:data"`
		}
		if entry.FieldsV1 == nil || entry.Time == nil || json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
			continue
		}
		if _, owns := fields.Data["f:"+v.Key]; owns && entry.Time.After(last) {
			last = entry.Time.Time
		}
	}
	return last
}

// Keeps reports whether Write with this text would keep the policy of v as the previous version: v has a
// policy, and both texts fit into the ConfigMap with its other keys.
func (v Version) Keeps(text string) bool {
	if !v.Found {
		return false
	}
	size := len(text) + len(v.Text)
	data, _, _ := unstructured.NestedStringMap(v.object.Object, "data")
	for key, value := range data {
		if key != v.Target && key != v.Target+PreviousSuffix {
			size += len(value)
		}
	}
	binary, _, _ := unstructured.NestedStringMap(v.object.Object, "binaryData")
	for _, value := range binary {
		size += base64.StdEncoding.DecodedLen(len(value))
	}
	return size <= mostConfigMapBytes
}

// Write writes a text to the key over.Target of the ConfigMap, where over is the result of a Read. It keeps the
// text of over as the previous version if over.Keeps says so, and drops the previous version of over. Errors:
// engine.ErrUnknownResult; ErrChanged, ErrNoConfigMap, ErrRefused and engine.ErrUnavailable, and nothing is written.
func (p *Store) Write(ctx context.Context, over Version, text string, now time.Time) (Version, error) {
	o := over.object.DeepCopy()
	data, _, _ := unstructured.NestedStringMap(o.Object, "data")
	data = maps.Clone(data)
	if data == nil {
		data = map[string]string{}
	}
	data[over.Target] = text
	delete(data, over.Target+PreviousSuffix)
	if over.Keeps(text) {
		data[over.Target+PreviousSuffix] = over.Text
	}
	if err := unstructured.SetNestedStringMap(o.Object, data, "data"); err != nil {
		return Version{}, fmt.Errorf("gardener: %w", err)
	}
	annotations := o.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[AnnotationApplied] = policy.Digest([]byte(text)) + " " + now.UTC().Format(time.RFC3339)
	o.SetAnnotations(annotations)
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	written, err := p.api.Update(ctx, o, metav1.UpdateOptions{FieldManager: kube.FieldManager})
	if err != nil {
		return Version{}, judged("update", p.opts, err, true)
	}
	return p.version(written), nil
}

// judged wraps an error of the API in the error that callers test for.
func judged(verb string, o Options, err error, write bool) error {
	as := engine.ErrUnavailable
	switch verdict.Of(err, write) {
	case verdict.Conflict:
		as = ErrChanged
	case verdict.Missing:
		as = ErrNoConfigMap
	case verdict.Unknown:
		as = engine.ErrUnknownResult
	case verdict.Invalid, verdict.Barred:
		as = ErrRefused
	case verdict.Again, verdict.Refused, verdict.Expired:
	}
	return &verdict.Error{Op: fmt.Sprintf("%s ConfigMap %s/%s", verb, o.Namespace, o.Name), As: as, Err: err}
}
