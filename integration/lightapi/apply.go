package lightapi

import (
	"net/http"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// apply implements server-side apply: it creates an object, or merges the configuration of a field manager
// into it. Fields that the manager no longer applies are removed, unless others changed them. Maps are
// merged, all other values are replaced. There are no conflicts between managers.
func (s *Server) apply(w http.ResponseWriter, r *http.Request, c *collection, k *kind, at key, content []byte, status bool) error {
	manager := applier{r.URL.Query().Get("fieldManager"), status}
	configuration, err := decodeYAML(content)
	if err != nil {
		return err
	}
	dry, err := writable(r)
	if err == nil {
		err = k.belongs(configuration, at)
	}
	if err != nil {
		return err
	}
	configuration.SetName(at.name)
	configuration.SetNamespace(at.namespace)
	code := http.StatusOK
	stored, err := s.store.write(c, at, dry, func(before *unstructured.Unstructured) (after *unstructured.Unstructured, err error) {
		switch {
		case before != nil:
			after, err = k.updated(before, applied(before, c.applied[at][manager], configuration.Object), status)
		case status:
			return nil, apierrors.NewNotFound(k.resource(), at.name)
		default:
			code = http.StatusCreated
			if err = s.store.admits(k, at); err == nil {
				after, err = k.created(configuration.DeepCopy(), at.namespace)
			}
		}
		if err == nil && !dry {
			c.remember(at, manager, configuration.Object)
		}
		return after, err
	})
	if err != nil {
		return err
	}
	return shown(w, r, code, k, stored)
}

// applier is a field manager that applies an object or, apart from that, its status.
type applier struct {
	manager string
	status  bool
}

// remember stores the last configuration of a manager. The lock is held.
func (c *collection) remember(at key, manager applier, configuration map[string]any) {
	if c.applied[at] == nil {
		c.applied[at] = map[applier]map[string]any{}
	}
	c.applied[at][manager] = configuration
}

// applied returns a copy of the object in which a configuration replaces an earlier one.
func applied(o *unstructured.Unstructured, earlier, configuration map[string]any) *unstructured.Unstructured {
	after := o.DeepCopy()
	prune(after.Object, earlier, configuration)
	merge(after.Object, configuration)
	return after
}

// prune removes the unchanged fields that only the earlier configuration has.
func prune(live, earlier, configuration map[string]any) {
	for name, was := range earlier {
		is, stays := configuration[name]
		inner, wasMap := was.(map[string]any)
		liveInner, liveMap := live[name].(map[string]any)
		switch {
		case wasMap && liveMap:
			next, _ := is.(map[string]any)
			prune(liveInner, inner, next)
			if !stays && len(liveInner) == 0 {
				delete(live, name)
			}
		case !stays && reflect.DeepEqual(live[name], was):
			delete(live, name)
		}
	}
}

func merge(into, from map[string]any) {
	for name, value := range from {
		inner, isMap := value.(map[string]any)
		existing, wasMap := into[name].(map[string]any)
		if isMap && wasMap {
			merge(existing, inner)
			continue
		}
		into[name] = value
	}
}
