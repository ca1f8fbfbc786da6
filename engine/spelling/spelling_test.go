package spelling_test

import (
	"testing"

	"github.com/hap-worker/hap-worker/engine/spelling"
)

func TestClosest(t *testing.T) {
	t.Parallel()
	known := []string{"aws", "azure", "azure_lite", "gcp", "preview"}
	for word, want := range map[string]string{
		"aws": "aws", "AWS": "aws", "awss": "aws", "ws": "aws", "asw": "aws",
		"azrue": "azure", "azur": "azure", "azure-lite": "azure_lite",
		"pr": "", "pview": "preview", "review!": "preview", "interview": "", "": "", "x": "", "gc": "gcp", "openstack": "",
	} {
		if got := spelling.Closest(word, known); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
	if got := spelling.Closest("abd", []string{"abx", "aby"}); got != "abx" {
		t.Errorf("the first of several is abx, got %q", got)
	}
}
