package build

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestRead(t *testing.T) {
	t.Parallel()
	stamped := []debug.BuildSetting{{Key: "vcs", Value: "git"}, {Key: "vcs.revision", Value: "0dc5dde"}, {Key: "vcs.modified", Value: "false"}}
	for name, c := range map[string]struct {
		told *debug.BuildInfo
		want Info
	}{
		"a release":               {&debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}, Settings: stamped}, Info{Version: "v1.2.3", Revision: "0dc5dde"}},
		"a working tree":          {&debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: stamped}, Info{Revision: "0dc5dde"}},
		"built without a history": {&debug.BuildInfo{}, Info{}},
		"built without modules":   {nil, Info{}},
	} {
		c.want.Go = runtime.Version()
		if got := of(c.told); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	if Read().Go != runtime.Version() {
		t.Errorf("this program is of %+v", Read())
	}
}
