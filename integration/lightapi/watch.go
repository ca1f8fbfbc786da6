package lightapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
)

const (
	// longestWatch is the timeout of a watch without timeoutSeconds, and the longest of any.
	longestWatch = 30 * time.Minute
	// slowest is how long a client may take to accept a write.
	slowest = 30 * time.Second
)

// stream writes the events of one watch. A slow client does not block writers: the collection's log goes on,
// and the client is told that its version has expired.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	kind    *kind
	form    form
	include metav1.IncludeObjectPolicy
}

// watch answers a watch. It ends at its timeout, when the client, the server or the kind goes, or when the next
// changes are no longer in the log.
func (s *Server) watch(w http.ResponseWriter, r *http.Request, c *collection, k *kind, at key) error {
	o, selected, err := k.listOptions(r.URL.Query(), at)
	if err != nil {
		return err
	}
	f, err := negotiate(r.Header)
	if err == nil && f == metadataOnlyList {
		err = f.of(false)
	}
	if err != nil {
		return err
	}
	version, err := parseVersion(o.ResourceVersion)
	if err != nil {
		return err
	}
	initial := o.SendInitialEvents == nil && version == 0 || o.SendInitialEvents != nil && *o.SendInitialEvents
	var state []*unstructured.Unstructured
	if now := s.store.now(); version > now {
		return tooNew(version, now)
	}
	if initial || version == 0 {
		if state, version, err = s.store.snapshot(c, 0); err != nil {
			return err
		}
	}
	if _, _, _, err := s.store.since(c, version); err != nil {
		return err // 410 instead of a stream
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	out := &stream{w: w, control: http.NewResponseController(w), kind: k, form: f, include: include(r.URL.Query())}
	if initial {
		err = out.begin(o, selected, state, version)
	} else {
		err = out.flush()
	}
	if err == nil {
		err = s.follow(r.Context(), out, c, o, selected, version)
	}
	if err != nil {
		panic(http.ErrAbortHandler) // the client is gone or too slow, and must not see a regular end
	}
	return nil
}

// begin writes the existing objects. With sendInitialEvents and bookmarks, a bookmark marks their end.
func (out *stream) begin(o *internalversion.ListOptions, selected *selection, state []*unstructured.Unstructured, version uint64) error {
	for _, object := range state {
		if selected.has(object) {
			if err := out.write(watch.Added, out.form.encoded(out.kind, object, out.include)); err != nil {
				return err
			}
		}
	}
	if o.SendInitialEvents != nil && o.AllowWatchBookmarks {
		if err := out.bookmark(version, map[string]any{metav1.InitialEventsAnnotationKey: "true"}); err != nil {
			return err
		}
	}
	return out.flush()
}

// follow writes the changes after a version. It returns nil at a regular end.
func (s *Server) follow(ctx context.Context, out *stream, c *collection, o *internalversion.ListOptions, selected *selection, version uint64) error {
	limit := longestWatch
	if o.TimeoutSeconds != nil && *o.TimeoutSeconds > 0 {
		limit = min(limit, time.Duration(min(*o.TimeoutSeconds, int64(limit/time.Second)))*time.Second)
	}
	end := time.NewTimer(limit)
	defer end.Stop()
	bookmarks := time.NewTicker(s.options.Bookmarks)
	defer bookmarks.Stop()
	for {
		changes, upTo, next, err := s.store.since(c, version)
		if err != nil {
			return errors.Join(out.write(watch.Error, statusOf(err)), out.flush())
		}
		if version = upTo; len(changes) > 0 {
			if err := out.changes(changes, selected); err != nil {
				return err
			}
			continue
		}
		select {
		case <-next:
			if s.store.ended(c) {
				return nil
			}
		case <-bookmarks.C:
			if !o.AllowWatchBookmarks {
				continue
			}
			if err := errors.Join(out.bookmark(version, nil), out.flush()); err != nil {
				return err
			}
		case <-end.C:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// ended reports whether the collection is no longer served.
func (s *store) ended(c *collection) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return c.gone
}

// changes writes changes, and flushes.
func (out *stream) changes(changes []change, selected *selection) error {
	for _, done := range changes {
		if err := out.change(done, selected); err != nil {
			return err
		}
	}
	return out.flush()
}

// change writes a change as the selection sees it: an object that starts to match is added; one that stops
// matching is deleted, in its last matching state.
func (out *stream) change(done change, selected *selection) error {
	was, is := selected.has(done.before), selected.has(done.after)
	switch {
	case is && was:
		return out.write(watch.Modified, out.form.encoded(out.kind, done.after, out.include))
	case is:
		return out.write(watch.Added, out.form.encoded(out.kind, done.after, out.include))
	case was:
		return out.write(watch.Deleted, out.form.encoded(out.kind, withVersion(done.before, done.version), out.include))
	default:
		return nil
	}
}

// bookmark writes up to which version all changes were written.
func (out *stream) bookmark(version uint64, annotations map[string]any) error {
	meta := map[string]any{"resourceVersion": strconv.FormatUint(version, 10), "creationTimestamp": nil}
	if annotations != nil {
		meta["annotations"] = annotations
	}
	object := &unstructured.Unstructured{Object: map[string]any{
		"kind": out.kind.name, "apiVersion": out.kind.groupVersion().String(), "metadata": meta,
	}}
	return out.write(watch.Bookmark, out.form.encoded(out.kind, object, out.include))
}

func (out *stream) write(event watch.EventType, object any) error {
	if err := out.control.SetWriteDeadline(time.Now().Add(slowest)); err != nil {
		return err
	}
	return json.NewEncoder(out.w).Encode(map[string]any{"type": event, "object": object})
}

// flush sends what was written, and removes the write deadline: with HTTP/2, it would end an idle watch.
func (out *stream) flush() error {
	return errors.Join(out.control.Flush(), out.control.SetWriteDeadline(time.Time{}))
}

// deny returns the error for a method that a resource does not support.
func deny(k *kind, method string) error {
	return apierrors.NewMethodNotSupported(k.resource(), method)
}
