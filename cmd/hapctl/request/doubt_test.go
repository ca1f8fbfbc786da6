package request

import (
	"strings"
	"testing"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
)

// hapctl release says why a worker will refuse the release.
func TestWhyNotReleased(t *testing.T) {
	t.Parallel()
	dirty := engine.Binding{Name: "b", UID: "u-2", Dirty: true, Generation: 2}
	two := int64(2)
	for _, c := range []struct {
		asked  events.Release
		b      engine.Binding
		exists bool
		want   string // "" for no doubt
	}{
		{events.Release{Binding: "b"}, engine.Binding{}, false, "UnknownBinding"},
		{events.Release{Binding: "b", Generation: &two}, engine.Binding{Generation: 2}, true, "NotDirty"},
		{events.Release{Binding: "b"}, dirty, true, "add --generation 2"},
		{events.Release{Binding: "b", Generation: &two}, dirty, true, ""},
		{events.Release{Binding: "b", Generation: &two, UID: "u-2"}, dirty, true, ""},
		{events.Release{Binding: "b", Generation: &two, UID: "u-1"}, dirty, true, "created again since: the release is refused as StaleRelease"},
	} {
		if got := whyNotReleased(&c.asked, c.b, c.exists); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%+v: %q, want %q", c.asked, got, c.want)
		}
	}
}
