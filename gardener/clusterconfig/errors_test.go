package clusterconfig

import (
	"errors"
	"io"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/network"
)

// TestErrorsOfNotes: only what the API will never accept is given up.
func TestErrorsOfNotes(t *testing.T) {
	t.Parallel()
	of := schema.GroupResource{Group: "gardener.clusters.openmcp.cloud", Resource: "clusterconfigs"}
	for name, c := range map[string]struct{ err, want error }{
		"no object can have this name": {apierrors.NewInvalid(schema.GroupKind{Kind: "ClusterConfig"}, "a", nil), network.ErrRefused},
		"the request is malformed":     {apierrors.NewBadRequest("no JSON"), network.ErrRefused},
		"a right is missing":           {apierrors.NewForbidden(of, "a", io.EOF), engine.ErrUnavailable},
		"it has changed":               {apierrors.NewConflict(of, "a", io.EOF), engine.ErrConflict},
		"the answer is lost":           {io.ErrUnexpectedEOF, engine.ErrUnknownResult},
	} {
		if err := writeError("write it", c.err); !errors.Is(err, c.want) || errors.Is(err, network.ErrRefused) != errors.Is(c.want, network.ErrRefused) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if writeError("write it", nil) != nil {
		t.Error("success is an error")
	}
	if err := readError("read it", io.ErrUnexpectedEOF); !errors.Is(err, engine.ErrUnavailable) || errors.Is(err, engine.ErrUnknownResult) {
		t.Errorf("a read whose answer is lost: %v", err)
	}
}
