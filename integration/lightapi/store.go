package lightapi

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// key names an object of a kind.
type key struct{ namespace, name string }

func (k key) compare(other key) int {
	return cmp.Or(cmp.Compare(k.namespace, other.namespace), cmp.Compare(k.name, other.name))
}

// change is one write of an object. before is nil for a creation, after is nil for a deletion. last is after,
// or, for a deletion, before with the version of the deletion.
type change struct {
	key
	version uint64
	before  *unstructured.Unstructured
	after   *unstructured.Unstructured
	last    *unstructured.Unstructured
}

// collection has the objects of one kind and their last changes. Stored objects are immutable, so they may be
// read without the lock.
type collection struct {
	kind    *kind
	objects map[key]*unstructured.Unstructured
	keys    []key // sorted
	log     []change
	// forgotten is the version of the last change that is no longer in the log. Watches and pages cannot
	// begin at older versions.
	forgotten uint64
	changed   chan struct{} // closed by the next change
	gone      bool          // the definition was deleted; the collection is not served
	// applied has the last configurations of each field manager of an object: of the object, and of its status.
	applied map[key]map[applier]map[string]any
}

// store has all collections. They share one lock, because they share the version counter.
type store struct {
	mu          sync.Mutex
	version     uint64
	history     int // the most changes that a collection's log keeps; then the older half is dropped
	collections map[schema.GroupResource]*collection
}

func newStore(history int) *store {
	s := &store{version: 1, history: history, collections: map[schema.GroupResource]*collection{}}
	for _, k := range builtIn() {
		s.serve(k)
	}
	return s
}

// serve starts to serve a kind, or replaces it by its changed definition.
func (s *store) serve(k *kind) {
	if c, ok := s.collections[k.resource()]; ok {
		c.kind = k
		return
	}
	s.collections[k.resource()] = &collection{
		kind: k, objects: map[key]*unstructured.Unstructured{}, changed: make(chan struct{}), forgotten: s.version,
		applied: map[key]map[applier]map[string]any{},
	}
}

// find returns the collection of a resource, and its current kind.
func (s *store) find(r schema.GroupVersionResource) (*collection, *kind, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.collections[r.GroupResource()]
	if !ok || c.kind.version != r.Version {
		return nil, nil, false
	}
	return c, c.kind, true
}

// kinds returns all served kinds, sorted by group and plural.
func (s *store) kinds() []*kind {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*kind
	for _, c := range s.collections {
		all = append(all, c.kind)
	}
	slices.SortFunc(all, func(a, b *kind) int { return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.plural, b.plural)) })
	return all
}

// get returns the present object, nil if there is none.
func (s *store) get(c *collection, k key) *unstructured.Unstructured {
	s.mu.Lock()
	defer s.mu.Unlock()
	return c.objects[k]
}

// write replaces the object at k by the result of f. f gets nil if there is no object, and returns nil to
// delete it. It must not alter its argument. It runs under the lock, so no other write intervenes. An
// unchanged object keeps its version. dryRun stores nothing. write returns the object, or after a deletion its last state.
func (s *store) write(c *collection, k key, dryRun bool, f func(before *unstructured.Unstructured) (*unstructured.Unstructured, error)) (*unstructured.Unstructured, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.gone {
		return nil, apierrors.NewNotFound(c.kind.resource(), k.name)
	}
	before := c.objects[k]
	after, err := f(before)
	if err != nil {
		return nil, err
	}
	if before == nil && after == nil {
		return nil, apierrors.NewNotFound(c.kind.resource(), k.name)
	}
	if before != nil && after != nil && reflect.DeepEqual(before.Object, after.Object) {
		return before, nil
	}
	if dryRun {
		return cmp.Or(after, before), nil
	}
	s.version++
	done := change{key: k, version: s.version, before: before}
	if after == nil {
		done.last = withVersion(before, s.version)
	} else {
		done.after = withVersion(after, s.version)
		done.last = done.after
	}
	if c.kind.resource() == (schema.GroupResource{Group: definitionGroup, Resource: definitions}) {
		if err := s.define(done); err != nil {
			return nil, err
		}
	}
	c.commit(done, s.history)
	return done.last, nil
}

// define applies a new, changed or deleted definition.
func (s *store) define(done change) error {
	k, err := defined(done.last)
	if err != nil {
		return err
	}
	c, known := s.collections[k.resource()]
	if done.after != nil {
		if known && c.kind.namespaced != k.namespaced {
			return apierrors.NewBadRequest("the scope of a definition cannot change")
		}
		s.serve(k)
		return nil
	}
	if known {
		c.gone = true
		close(c.changed)
		delete(s.collections, k.resource())
	}
	return nil
}

func (c *collection) commit(done change, history int) {
	at, there := slices.BinarySearchFunc(c.keys, done.key, key.compare)
	switch {
	case done.after == nil:
		delete(c.objects, done.key)
		delete(c.applied, done.key)
		c.keys = slices.Delete(c.keys, at, at+1)
	case there:
		c.objects[done.key] = done.after
	default:
		c.objects[done.key] = done.after
		c.keys = slices.Insert(c.keys, at, done.key)
	}
	if len(c.log) >= history {
		half := (len(c.log) + 1) / 2
		c.forgotten = c.log[half-1].version
		c.log = slices.Delete(c.log, 0, half)
	}
	c.log = append(c.log, done)
	close(c.changed)
	c.changed = make(chan struct{})
}

// snapshot returns all objects of a collection at a version, sorted by key; 0 is the latest version. Errors:
// expired, tooNew.
func (s *store) snapshot(c *collection, version uint64) (objects []*unstructured.Unstructured, at uint64, err error) {
	at, _, err = s.walk(c, version, "", key{}, func(o *unstructured.Unstructured) bool {
		objects = append(objects, o)
		return true
	})
	return objects, at, err
}

// walk visits the objects of a version after a key, sorted, until visit returns false; version 0 is the latest. Unless
// namespace is "", it visits only the objects of this namespace. left is the number of those that it has not visited.
func (s *store) walk(c *collection, version uint64, namespace string, after key, visit func(*unstructured.Unstructured) bool) (at uint64, left int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if version == 0 {
		version = s.version
	}
	if version > s.version {
		return 0, 0, tooNew(version, s.version)
	}
	if version < c.forgotten {
		return 0, 0, expired(version, c.forgotten)
	}
	keys, past := c.keys, c.undone(version)
	if len(past) > 0 {
		keys = slices.Clone(c.keys)
		for k := range past {
			if at, there := slices.BinarySearchFunc(keys, k, key.compare); !there {
				keys = slices.Insert(keys, at, k)
			}
		}
		keys = slices.DeleteFunc(keys, func(k key) bool {
			o, changed := past[k]
			return changed && o == nil
		})
	}
	if namespace != "" {
		begin, _ := slices.BinarySearchFunc(keys, key{namespace: namespace}, key.compare)
		end, _ := slices.BinarySearchFunc(keys, key{namespace: namespace + "\x00"}, key.compare)
		keys = keys[begin:end]
	}
	first, there := slices.BinarySearchFunc(keys, after, key.compare)
	if there {
		first++
	}
	for i, k := range keys[first:] {
		o, changed := past[k]
		if !changed {
			o = c.objects[k]
		}
		if !visit(o) {
			return version, len(keys) - first - i - 1, nil
		}
	}
	return version, 0, nil
}

// undone returns the objects that have changed since a version, as they were then; nil for one that did not exist.
func (c *collection) undone(version uint64) map[key]*unstructured.Unstructured {
	past := map[key]*unstructured.Unstructured{}
	for _, done := range slices.Backward(c.log) {
		if done.version <= version {
			break
		}
		past[done.key] = done.before
	}
	return past
}

// batch is the number of changes that a watch reads at once.
const batch = 256

// since returns the next changes after a version, at most batch, the version up to which they are complete, and
// a channel that the next change closes. Errors: expired, tooNew.
func (s *store) since(c *collection, version uint64) (changes []change, upTo uint64, next <-chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if version > s.version {
		return nil, 0, nil, tooNew(version, s.version)
	}
	if version < c.forgotten {
		return nil, 0, nil, expired(version, c.forgotten)
	}
	from, _ := slices.BinarySearchFunc(c.log, version+1, func(done change, v uint64) int { return cmp.Compare(done.version, v) })
	changes = slices.Clone(c.log[from:min(from+batch, len(c.log))])
	upTo = s.version
	if from+batch < len(c.log) {
		upTo = changes[len(changes)-1].version
	}
	return changes, upTo, c.changed, nil
}

func (s *store) now() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// expired is the error for a version that is no longer in the log.
func expired(version, oldest uint64) error {
	return apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", version, oldest))
}

// withVersion returns a copy of the object with another version. It shares the rest.
func withVersion(o *unstructured.Unstructured, version uint64) *unstructured.Unstructured {
	copied := &unstructured.Unstructured{Object: maps.Clone(o.Object)}
	meta, _ := o.Object["metadata"].(map[string]any)
	changed := make(map[string]any, len(meta)+1)
	maps.Copy(changed, meta)
	changed["resourceVersion"] = strconv.FormatUint(version, 10)
	copied.Object["metadata"] = changed
	return copied
}
