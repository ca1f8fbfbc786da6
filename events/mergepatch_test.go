package events_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/hap-worker/hap-worker/events"
)

func add(path string, value any) events.PatchOperation {
	return events.PatchOperation{Op: "add", Path: path, Value: value}
}

func TestMergePatch(t *testing.T) {
	t.Parallel()
	binding := add("/spec/credentialsBindingName", "aws-7")
	deep := strings.Repeat("/a", 64)
	for name, c := range map[string]struct {
		operations []events.PatchOperation
		want       string // "null" where a merge patch cannot say the same
	}{
		"nothing":                          {nil, `null`},
		"a binding":                        {[]events.PatchOperation{binding}, `{"spec":{"credentialsBindingName":"aws-7"}}`},
		"and a block":                      {[]events.PatchOperation{binding, add("/spec/network/cidr", "10.0.0.0/28")}, `{"spec":{"credentialsBindingName":"aws-7","network":{"cidr":"10.0.0.0/28"}}}`},
		"escapes":                          {[]events.PatchOperation{add("/a~1b/~01/", "x")}, `{"a/b":{"~1":{"":"x"}}}`},
		"the last of a path":               {[]events.PatchOperation{add("/a", "x"), add("/a", "y")}, `{"a":"y"}`},
		"a text in the place of an object": {[]events.PatchOperation{add("/a/b", "x"), add("/a", "y")}, `{"a":"y"}`},
		"below a text":                     {[]events.PatchOperation{add("/a", "x"), add("/a/b", "y")}, `null`},
		"first in a list":                  {[]events.PatchOperation{binding, add("/spec/workers/0/cidr", "x")}, `null`},
		"eleventh in a list":               {[]events.PatchOperation{add("/spec/workers/10", "x")}, `null`},
		"end of a list":                    {[]events.PatchOperation{add("/spec/workers/-", "x")}, `null`},
		"names with digits":                {[]events.PatchOperation{add("/00/01/1a/-1", "x")}, `{"00":{"01":{"1a":{"-1":"x"}}}}`},
		"the root":                         {[]events.PatchOperation{add("", "x")}, `null`},
		"no pointer":                       {[]events.PatchOperation{add("spec/a", "x")}, `null`},
		"an object":                        {[]events.PatchOperation{add("/a", map[string]any{"b": "c"})}, `null`},
		"no value":                         {[]events.PatchOperation{add("/a", nil)}, `null`},
		"another operation":                {[]events.PatchOperation{{Op: "replace", Path: "/a", Value: "x"}}, `null`},
		"one name too deep":                {[]events.PatchOperation{add(deep+"/b", "x")}, `null`},
		"one byte too many":                {[]events.PatchOperation{add("/a", strings.Repeat("x", 16<<10-1))}, `null`},
	} {
		got, err := json.Marshal(events.MergePatch(c.operations))
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %s, %v, want %s", name, got, err, c.want)
		}
	}
	for _, fits := range []events.PatchOperation{add(deep, "x"), add("/a", strings.Repeat("x", 16<<10-2))} {
		if events.MergePatch([]events.PatchOperation{fits}) == nil {
			t.Errorf("no merge patch of a path of %d bytes and a value of %v", len(fits.Path), len(fits.Value.(string)))
		}
	}
}
