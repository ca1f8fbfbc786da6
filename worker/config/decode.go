package config

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/hap-worker/hap-worker/engine/document"
	"github.com/hap-worker/hap-worker/engine/spelling"
)

// decode returns the defaults overridden by root, and records the lines of the keys in lines. An unknown key,
// and a value of the wrong type, is a fault of root's reader. A key with such a value keeps its default, but a
// wrong item or entry of a list or mapping becomes an empty one.
func decode(root document.Node, lines map[string]int) *Config {
	c := Default()
	d := decoder{given: map[string]bool{}, lines: lines}
	c.present = map[string]bool{}
	for _, n := range d.section(root, reflect.ValueOf(c).Elem()) {
		c.present[n.Name] = !n.Null()
	}
	older := false
	for path := range hapRules {
		older = older || path != "hap.rule" && d.given[path]
	}
	if older && (!d.given["hap.rule"] || len(c.HAP.Rule) == 0 && c.HAP.olderRules()) {
		c.HAP.Rule = nil
	}
	if !older && !d.given["hap.rule"] {
		c.ruleless = true
	}
	return c
}

type decoder struct {
	given map[string]bool
	lines map[string]int
}

// section decodes a mapping into a struct, whose field tags are the keys. It returns the mapping's known
// fields. For gardener.labels, n may also be the name of a preset.
func (d *decoder) section(n document.Node, into reflect.Value) []document.Node {
	if preset, is := n.Scalar().(string); is && n.Path == "gardener.labels" {
		labels(n, preset, into)
		return nil
	}
	if n.Null() {
		return nil
	}
	keys := map[string]reflect.Value{}
	for i := range into.NumField() {
		if key := into.Type().Field(i).Tag.Get("key"); key != "" {
			keys[key] = into.Field(i)
		}
	}
	known := sortedKeys(keys)
	if n.Path == "gardener.labels" {
		known = append(known, "preset")
	}
	values, _ := n.Object(known...)
	if n, given := values.Get("preset"); given {
		if preset, is := n.Scalar().(string); is {
			labels(n, preset, into)
		} else {
			n.Expected(LegacyLabels + " or " + DefaultLabels)
		}
	}
	for _, n := range values.Fields {
		d.lines[n.Path] = n.KeyLine
		switch field := keys[n.Name]; field.Kind() {
		case reflect.Invalid: // preset
		case reflect.Struct:
			d.section(n, field)
		default:
			d.leaf(n, field)
		}
	}
	return values.Fields
}

func labels(n document.Node, preset string, into reflect.Value) {
	switch preset {
	case LegacyLabels:
		into.Set(reflect.ValueOf(legacyLabels()))
	case DefaultLabels:
		into.Set(reflect.ValueOf(StandardLabels()))
	default:
		n.Fault(document.Value, "%q is not a preset: write %s, or a mapping of keys", preset, LegacyLabels)
	}
}

// leaf decodes the value of one key. An empty value leaves the default, except for hap.rule, where it means
// no rules.
func (d *decoder) leaf(n document.Node, into reflect.Value) {
	d.given[n.Path] = true
	target := into.Addr().Interface()
	if n.Null() {
		if n.Path == "hap.rule" {
			into.Set(reflect.ValueOf([]string{}))
		}
		return
	}
	switch target := target.(type) {
	case *time.Duration:
		measure(n, "a duration as in 90s, 10m or 24h", ParseDuration, target)
	case *int64:
		measure(n, "a size as in 512Mi or 1Gi", parseBytes, target)
	case *int:
		if number, is := n.Whole(); is {
			*target = number
		}
	case *float64:
		number(n, target)
	case *bool:
		value, is := n.Scalar().(bool)
		if !is {
			n.Expected("true or false")
			return
		}
		*target = value
	case *[]string:
		*target = d.texts(n, *target)
	case *URLs:
		if text, is := n.Scalar().(string); is {
			*target = splitURLs(text)
			return
		}
		*target = d.texts(n, *target)
	case *map[string]string:
		*target = entries(d, n, func(n document.Node) string { text, _ := n.Text(); return text })
	case *map[string]int:
		*target = entries(d, n, func(n document.Node) int { number, _ := n.Whole(); return number })
	case *map[string]Plan:
		*target = entries(d, n, func(n document.Node) (plan Plan) {
			d.section(n, reflect.ValueOf(&plan).Elem())
			return plan
		})
	default:
		if value, _ := n.Text(); value != "" {
			into.SetString(value)
		}
	}
}

// texts returns the items of a list, with "" for an item that is not text. If n is not a list, it returns
// fallback.
func (d *decoder) texts(n document.Node, fallback []string) []string {
	items, is := n.List()
	if !is {
		return fallback
	}
	texts := make([]string, len(items))
	for i, item := range items {
		d.lines[item.Path] = item.Line
		texts[i], _ = item.Text()
	}
	return texts
}

// measure decodes a number with a unit. The value may be quoted or not, so that files, Helm and the
// environment mean the same.
func measure[V any](n document.Node, write string, parse func(string) (V, error), into *V) {
	var text string
	if !n.Unambiguous() {
		return
	}
	switch value := n.Scalar().(type) {
	case string:
		text = strings.TrimSpace(value)
		if value, err := document.Number(text); err != nil {
			n.Fault(document.Value, "%s", err)
			return
		} else if whole, is := value.(int); is {
			text = fmt.Sprint(whole)
		}
	case int:
		text = fmt.Sprint(value)
	default:
		n.Expected(write)
		return
	}
	parsed, err := parse(text)
	if err != nil {
		n.Fault(document.Value, "%q %s", text, err)
		return
	}
	*into = parsed
}

func number(n document.Node, into *float64) {
	if !n.Unambiguous() {
		return
	}
	switch value := n.Scalar().(type) {
	case int:
		*into = float64(value)
	case float64:
		if !math.IsNaN(value) && !math.IsInf(value, 0) {
			*into = value
			return
		}
		n.Fault(document.Value, "must be a number")
	default:
		n.Expected("a number")
	}
}

// entries decodes a mapping with arbitrary keys.
func entries[V any](d *decoder, n document.Node, one func(document.Node) V) map[string]V {
	all, is := n.Object()
	if !is {
		return nil
	}
	decoded := make(map[string]V, len(all.Fields))
	for _, n := range all.Fields {
		d.lines[n.Path] = n.KeyLine
		decoded[n.Name] = one(n)
	}
	return decoded
}

func sortedKeys[V any](values map[string]V) []string { return slices.Sorted(maps.Keys(values)) }

// didYouMean returns a hint with the most similar known word, or "".
func didYouMean(word string, known []string) string {
	meant := spelling.Closest(word, known)
	if meant == "" {
		return ""
	}
	return fmt.Sprintf(", did you mean %s?", meant)
}
