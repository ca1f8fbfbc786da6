package gardener

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/hap-worker/hap-worker/engine"
)

// The keys that cannot be renamed: the worker's own.
const (
	LabelCordon          = "hap-worker/cordon"      // "true" keeps a binding from new assignments
	AnnotationGeneration = "hap-worker/generation"  // counts the claims of a binding
	AnnotationEpoch      = "hap-worker/epoch"       // the Redis epoch of the last confirmation
	AnnotationPool       = "hap-worker/pool"        // the pool in which the binding was claimed, and the tenant of that claim
	AnnotationReleasedBy = "hap-worker/released-by" // request id of the last release
)

// kind names a Resource in the API.
type kind struct {
	name     string
	resource schema.GroupVersionResource
}

var kinds = map[Resource]kind{
	CredentialsBindings: {"CredentialsBinding", schema.GroupVersionResource{Group: "security.gardener.cloud", Version: "v1alpha1", Resource: "credentialsbindings"}},
	SecretBindings:      {"SecretBinding", schema.GroupVersionResource{Group: "core.gardener.cloud", Version: "v1beta1", Resource: "secretbindings"}},
	Secrets:             {"Secret", schema.GroupVersionResource{Version: "v1", Resource: "secrets"}},
}

// keys are the label keys on the objects, in the order of keyNames.
type keys struct {
	hyperscalerType, tenantName, dirty, internal, shared, euAccess string
}

// LabelKeys returns the label keys of a preset, by documented name; for an unknown preset it returns nil and
// false. "" is the preset "default".
func LabelKeys(preset string) (m map[string]string, ok bool) {
	m = map[string]string{
		"hyperscalerType": "hyperscalerType", "tenantName": "tenantName", "dirty": "dirty",
		"internal": "internal", "shared": "shared", "euAccess": "euAccess",
	}
	switch preset {
	case "", "default":
	case "legacy":
		m["hyperscalerType"], m["tenantName"] = "hyperscaler-type", "tenant-name"
	default:
		return nil, false
	}
	return m, true
}

// labelKeys applies a renaming map, or returns all its faults.
func labelKeys(renamed map[string]string) (keys, error) {
	var faults []error
	m, ok := LabelKeys(renamed[Preset])
	if !ok {
		faults = append(faults, fmt.Errorf("gardener.labels.preset: %q is unknown; it is default or legacy", renamed[Preset]))
		m, _ = LabelKeys("")
	}
	for _, name := range slices.Sorted(maps.Keys(renamed)) {
		key := renamed[name]
		if name == Preset {
			continue
		}
		if _, ok := m[name]; !ok {
			faults = append(faults, fmt.Errorf("gardener.labels.%s: no such label; the names are %s", name, strings.Join(slices.Sorted(maps.Keys(m)), ", ")))
			continue
		}
		if why := validation.IsQualifiedName(key); len(why) > 0 {
			faults = append(faults, fmt.Errorf("gardener.labels.%s: %q is no label key: %s", name, key, strings.Join(why, ", ")))
		}
		m[name] = key
	}
	taken := map[string]string{LabelCordon: "the cordon"}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if other, dup := taken[m[name]]; dup {
			faults = append(faults, fmt.Errorf("gardener.labels.%s: %q is the key of %s already", name, m[name], other))
		}
		taken[m[name]] = name
	}
	return keys{m["hyperscalerType"], m["tenantName"], m["dirty"], m["internal"], m["shared"], m["euAccess"]}, errors.Join(faults...)
}

// decoder converts metadata to bindings. It warns once about each value that it does not understand.
type decoder struct {
	keys      keys
	kind      string
	namespace string
	warn      func(string)

	mu     sync.Mutex
	warned map[warning]struct{}
}

type warning struct{ binding, key, value string }

// binding reads the labels and annotations of one object.
func (d *decoder) binding(meta *metav1.ObjectMeta) engine.Binding {
	is := func(key string) bool { return d.isTrue(meta.Name, key, meta.Labels) }
	shared := func(s string) string { return unique.Make(s).Value() } // in memory once: 100,000 bindings have few such values
	return engine.Binding{
		Name:            meta.Name,
		Namespace:       d.namespace,
		Kind:            d.kind,
		UID:             string(meta.UID),
		ResourceVersion: meta.ResourceVersion,
		HyperscalerType: shared(meta.Labels[d.keys.hyperscalerType]),
		Tenant:          meta.Labels[d.keys.tenantName],
		Dirty:           is(d.keys.dirty),
		Internal:        is(d.keys.internal),
		Shared:          is(d.keys.shared),
		EUAccess:        is(d.keys.euAccess),
		Cordoned:        is(LabelCordon),
		Deleting:        meta.DeletionTimestamp != nil,
		ClaimedIn:       shared(claimedIn(meta.Annotations[AnnotationPool], meta.Labels[d.keys.tenantName])),
		Generation:      d.generation(meta),
		Epoch:           shared(meta.Annotations[AnnotationEpoch]),
		ReleasedBy:      meta.Annotations[AnnotationReleasedBy],
	}
}

// claimOf is the value of AnnotationPool.
func claimOf(pool engine.Pool, tenant string) string { return pool.Name() + " " + tenant }

// claimedIn returns the pool in the value of AnnotationPool, "" if that names another tenant than the
// label tenantName: others may have changed the label since.
func claimedIn(value, tenant string) string {
	pool, of, _ := strings.Cut(value, " ")
	if tenant == "" || of != tenant {
		return ""
	}
	return pool
}

// isTrue reports whether a label is "true". Any other value counts as absent: operators also write dirty=false
// for a clean account.
func (d *decoder) isTrue(binding, key string, labels map[string]string) bool {
	value, there := labels[key]
	if there && value != "true" {
		d.warnOnce(warning{binding, key, value}, "counts as absent; write \"true\" or remove it")
	}
	return value == "true"
}

// maxGeneration is the highest generation that is accepted. Numbers above 2^53 lose digits in Redis's Lua,
// and a binding reaches such a number only if it was written by hand.
const maxGeneration = 1 << 51

// generation returns the generation, and 0 if it is missing or invalid, as for a binding that was
// never claimed: every claim then writes a higher one.
func (d *decoder) generation(meta *metav1.ObjectMeta) int64 {
	value, there := meta.Annotations[AnnotationGeneration]
	if !there {
		return 0
	}
	g, err := strconv.ParseInt(value, 10, 64)
	if err != nil || g < 0 || g > maxGeneration {
		d.warnOnce(warning{meta.Name, AnnotationGeneration, value}, "is no count of claims and read as 0; remove it")
		return 0
	}
	return g
}

func (d *decoder) warnOnce(w warning, what string) {
	d.mu.Lock()
	_, known := d.warned[w]
	if !known {
		if d.warned == nil {
			d.warned = map[warning]struct{}{}
		}
		d.warned[w] = struct{}{}
	}
	d.mu.Unlock()
	if !known {
		d.warn(fmt.Sprintf("%s %s/%s: %s=%q %s", d.kind, d.namespace, w.binding, w.key, w.value, what))
	}
}

// account is a binding in the informer's cache. The index points to the same memory, so that each binding is
// in memory once; it may have a copy only of bindings that share credentials.
type account struct {
	engine.Binding

	credentials string // kind, namespace and name of what the binding refers to; "" for a Secret
	created     int64  // creation time in seconds since 1970
}

// GetObjectMeta returns a new ObjectMeta with the fields that the informer reads. A stored one would
// add mostly empty fields to each binding.
func (a *account) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Name: a.Name, Namespace: a.Namespace, ResourceVersion: a.ResourceVersion}
}

// account is the transform of the informer: it keeps only the fields of an account. An annotation of kubectl
// may contain a whole Secret, and managed fields are most of the bytes of a small object.
func (d *decoder) account(obj any) (any, error) {
	switch o := obj.(type) {
	case *metav1.PartialObjectMetadata:
		return d.listed(&object{Metadata: o.ObjectMeta}), nil
	case *unstructured.Unstructured:
		var read object
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &read); err != nil {
			return nil, fmt.Errorf("gardener: %s %s: %w", o.GetKind(), o.GetName(), err)
		}
		return d.listed(&read), nil
	default:
		return obj, nil
	}
}

// listed converts an object of a list or a watch to an account.
func (d *decoder) listed(o *object) *account {
	return &account{d.binding(&o.Metadata), o.credentials().named(cmp.Or(o.Metadata.Namespace, d.namespace)), o.Metadata.CreationTimestamp.Unix()}
}
