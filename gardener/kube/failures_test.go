package kube

import (
	"errors"
	"testing"
	"time"
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
