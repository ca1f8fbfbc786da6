package lightapi

import (
	"crypto/subtle"
	"encoding/json"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ServeHTTP answers a request. Only the health checks and the version need no token.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch strings.TrimSuffix(r.URL.Path, "/") {
	case "/healthz", "/livez", "/readyz":
		_, _ = w.Write([]byte("ok")) // fails only if the client is gone
		return
	}
	if err := s.answer(w, r); err != nil {
		status := statusOf(err)
		_ = answer(w, int(status.Code), status) // as above
	}
}

func (s *Server) answer(w http.ResponseWriter, r *http.Request) error {
	authorization := r.Header.Get("Authorization")
	if authorization == "" && strings.TrimSuffix(r.URL.Path, "/") == "/version" {
		_, err := s.discover(w, r)
		return err
	}
	token, _ := strings.CutPrefix(authorization, "Bearer ")
	if subtle.ConstantTimeCompare([]byte(token), []byte(s.token)) != 1 {
		return apierrors.NewUnauthorized("Unauthorized")
	}
	if ok, err := s.discover(w, r); ok {
		return err
	}
	unknown := apiError(http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource")
	t, ok := parsePath(r.URL.Path)
	if !ok {
		return unknown
	}
	c, k, ok := s.store.find(t.resource)
	if !ok || t.at.namespace != "" && !k.namespaced {
		return unknown
	}
	if t.subresource != "" {
		if t.subresource != "status" || !k.status {
			return unknown
		}
		return s.status(w, r, c, k, t.at)
	}
	if t.at.name == "" {
		return s.collection(w, r, c, k, t.at)
	}
	if k.namespaced && t.at.namespace == "" {
		return unknown
	}
	return s.object(w, r, c, k, t.at)
}

// collection handles the paths of collections.
func (s *Server) collection(w http.ResponseWriter, r *http.Request, c *collection, k *kind, at key) error {
	switch r.Method {
	case http.MethodGet:
		if watching(r) {
			return s.watch(w, r, c, k, at)
		}
		return s.list(w, r, c, k, at)
	case http.MethodPost:
		if k.namespaced && at.namespace == "" {
			return deny(k, "create")
		}
		return s.create(w, r, c, k, at)
	case http.MethodDelete:
		return s.removeAll(w, r, c, k, at)
	default:
		return deny(k, r.Method)
	}
}

// object handles the paths of objects.
func (s *Server) object(w http.ResponseWriter, r *http.Request, c *collection, k *kind, at key) error {
	switch r.Method {
	case http.MethodGet:
		if watching(r) {
			return s.watch(w, r, c, k, at)
		}
		return s.get(w, r, c, k, at)
	case http.MethodPut:
		return s.update(w, r, c, k, at, false)
	case http.MethodPatch:
		return s.patch(w, r, c, k, at, false)
	case http.MethodDelete:
		return s.remove(w, r, c, k, at)
	default:
		return deny(k, r.Method)
	}
}

func (s *Server) status(w http.ResponseWriter, r *http.Request, c *collection, k *kind, at key) error {
	switch r.Method {
	case http.MethodGet:
		return s.get(w, r, c, k, at)
	case http.MethodPut:
		return s.update(w, r, c, k, at, true)
	case http.MethodPatch:
		return s.patch(w, r, c, k, at, true)
	default:
		return deny(k, r.Method)
	}
}

func watching(r *http.Request) bool {
	asked := r.URL.Query().Get("watch")
	return asked == "true" || asked == "1"
}

// answer writes JSON.
func answer(w http.ResponseWriter, code int, content any) error {
	encoded, err := json.Marshal(content)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(encoded) // fails only if the client is gone
	return nil
}
