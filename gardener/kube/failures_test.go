package kube

import (
	"errors"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
)

// TestFailuresAreNews: an outage is told once, however often the watch tries, and the next outage is told again.
func TestFailuresAreNews(t *testing.T) {
	t.Parallel()
	var f Failures
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for _, step := range []struct {
		text  string
		after time.Duration
		news  bool
	}{
		{"connection refused", 0, true},
		{"connection refused", time.Minute, false},
		{"connection refused", quiet - 1, false},
		{"no route to host", time.Second, true},
		{"connection refused", time.Second, true},
		{"connection refused", 24 * time.Hour, true},
		{"read tcp 10.0.0.5:41234->10.0.0.1:443: connection reset by peer", time.Second, true},
		{"read tcp 10.0.0.5:41236->10.0.0.1:443: connection reset by peer", time.Second, false},
		{"read tcp 10.0.0.5:41236->10.0.0.2:443: connection reset by peer", time.Second, true},
	} {
		now = now.Add(step.after)
		if news := f.Add(errors.New(step.text), now); news != step.news || f.Last().Error() != step.text {
			t.Errorf("%s at %s: news %t", step.text, now, news)
		}
	}
}

// unread is a registration whose objects are not read yet.
type unread struct {
	cache.ResourceEventHandlerRegistration
}

func (unread) HasSynced() bool { return false }

// A watch that the API refuses is not waited for.
func TestSynced(t *testing.T) {
	t.Parallel()
	resource := schema.GroupResource{Resource: "clusters"}
	for _, c := range []struct {
		failed error
		want   bool
	}{
		{nil, false},
		{errors.New("connection refused"), false},
		{fmt.Errorf("failed to list: %w", apierrors.NewForbidden(resource, "", errors.New("no right"))), true},
		{fmt.Errorf("failed to list: %w", apierrors.NewNotFound(resource, "")), true},
	} {
		w := &ObjectWatch{events: unread{}}
		if c.failed != nil {
			w.failures.Add(c.failed, time.Now())
		}
		if got := w.Synced(); got != c.want {
			t.Errorf("after %v: %t", c.failed, got)
		}
	}
}
