package config

import (
	"reflect"
	"slices"
	"testing"

	"github.com/hap-worker/hap-worker/engine/rule"
)

// TestRulesKnowTheSettings: hapctl rules check warns of exactly the keys that a worker does not know.
func TestRulesKnowTheSettings(t *testing.T) {
	t.Parallel()
	for below, of := range map[string]reflect.Type{"hap": reflect.TypeFor[HAP](), "multiHyperscalerAccount": reflect.TypeFor[MultiHyperscalerAccount]()} {
		var keys []string
		for field := range of.Fields() {
			keys = append(keys, field.Tag.Get("key"))
		}
		known := slices.Clone(rule.Settings[below])
		slices.Sort(known)
		if slices.Sort(keys); !slices.Equal(keys, known) {
			t.Errorf("below %s are %v, rules know %v", below, keys, known)
		}
	}
}
