package config

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/hap-worker/hap-worker/engine/spelling"
)

// decode lays raw, the merged layers, over the defaults. What has the wrong type
// or is unknown is a fault and leaves its default in place.
func decode(raw map[string]any, wrong *faults) *Config {
	c := Default()
	d := decoder{wrong: wrong, given: map[string]bool{}}
	d.section("", raw, reflect.ValueOf(c).Elem())
	c.present = map[string]bool{}
	for section, value := range raw {
		c.present[section] = value != nil
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
	wrong *faults
	given map[string]bool
}

// section decodes a mapping into a struct, whose fields' tags are the keys.
func (d *decoder) section(path string, raw any, into reflect.Value) {
	if word, is := raw.(string); is && path == "gardener.labels" {
		d.labels(path, word, into)
		return
	}
	if raw == nil {
		return
	}
	values, is := raw.(map[string]any)
	if !is {
		d.wrong.unreadable(path, "must be a mapping, is %s", kindOf(raw))
		return
	}
	if word, given := values["preset"]; given && path == "gardener.labels" {
		values = maps.Clone(values)
		delete(values, "preset")
		if preset, is := word.(string); is {
			d.labels(join(path, "preset"), preset, into)
		} else {
			d.wrong.unreadable(join(path, "preset"), "must be %s or %s, is %s", LegacyLabels, DefaultLabels, kindOf(word))
		}
	}
	keys := map[string]reflect.Value{}
	for i := range into.NumField() {
		if key := into.Type().Field(i).Tag.Get("koanf"); key != "" {
			keys[key] = into.Field(i)
		}
	}
	for _, key := range sortedKeys(values) {
		field, known := keys[key]
		at := join(path, key)
		switch {
		case !known:
			d.wrong.add(at, "unknown key%s", didYouMean(key, sortedKeys(keys)))
		case field.Kind() == reflect.Struct:
			d.section(at, values[key], field)
		default:
			d.leaf(at, values[key], field)
		}
	}
}

func (d *decoder) labels(path, preset string, into reflect.Value) {
	switch preset {
	case LegacyLabels:
		into.Set(reflect.ValueOf(legacyLabels()))
	case DefaultLabels:
		into.Set(reflect.ValueOf(StandardLabels()))
	default:
		d.wrong.unreadable(path, "%q is no preset: write %s, or a mapping of keys", preset, LegacyLabels)
	}
}

// leaf decodes the value of one key. An empty value is the default, except for
// hap.rule, where it is the list without rules.
func (d *decoder) leaf(path string, raw any, into reflect.Value) {
	d.given[path] = true
	if raw == nil && path == "hap.rule" {
		raw = []any{}
	}
	if raw == nil {
		return
	}
	switch target := into.Addr().Interface().(type) {
	case *time.Duration:
		d.duration(path, raw, target)
	case *int64:
		d.bytes(path, raw, target)
	case *int:
		d.integer(path, raw, target)
	case *float64:
		d.number(path, raw, target)
	case *bool:
		if value, is := raw.(bool); is {
			*target = value
			return
		}
		d.wrong.unreadable(path, "must be true or false, is %s", kindOf(raw))
	case *[]string:
		*target = d.texts(path, raw, *target)
	case *URLs:
		d.urls(path, raw, target)
	case *map[string]string:
		*target = entries(d, path, raw, (*decoder).text)
	case *map[string]int:
		*target = entries(d, path, raw, (*decoder).integer)
	case *map[string]Plan:
		*target = entries(d, path, raw, func(d *decoder, path string, raw any, plan *Plan) {
			d.section(path, raw, reflect.ValueOf(plan).Elem())
		})
	default:
		var value string
		d.text(path, raw, &value)
		if value != "" {
			into.SetString(value)
		}
	}
}

func (d *decoder) text(path string, raw any, into *string) {
	value, is := raw.(string)
	if !is {
		d.wrong.unreadable(path, "must be text, is %s%s", kindOf(raw), quoteIt(raw))
		return
	}
	*into = value
}

func (d *decoder) texts(path string, raw any, fallback []string) []string {
	list, is := raw.([]any)
	if !is {
		d.wrong.unreadable(path, "must be a list, is %s", kindOf(raw))
		return fallback
	}
	texts := make([]string, len(list))
	for i := range list {
		d.text(element(path, i), list[i], &texts[i])
	}
	return texts
}

func (d *decoder) urls(path string, raw any, into *URLs) {
	if text, is := raw.(string); is {
		*into = splitURLs(text)
		return
	}
	*into = d.texts(path, raw, *into)
}

func (d *decoder) duration(path string, raw any, into *time.Duration) {
	text, is := raw.(string)
	if number, whole := raw.(int); whole {
		text, is = fmt.Sprint(number), true
	}
	if !is {
		d.wrong.unreadable(path, "must be a duration as in 90s, 10m or 24h, is %s", kindOf(raw))
		return
	}
	parsed, err := parseDuration(text)
	if err != nil {
		d.wrong.unreadable(path, "%q %s", text, err)
		return
	}
	*into = parsed
}

func (d *decoder) bytes(path string, raw any, into *int64) {
	text, is := raw.(string)
	if number, whole := raw.(int); whole {
		text, is = fmt.Sprint(number), true
	}
	if !is {
		d.wrong.unreadable(path, "must be a size as in 512Mi or 1Gi, is %s", kindOf(raw))
		return
	}
	parsed, err := parseBytes(text)
	if err != nil {
		d.wrong.unreadable(path, "%q %s", text, err)
		return
	}
	*into = parsed
}

func (d *decoder) integer(path string, raw any, into *int) {
	value, is := raw.(int)
	if !is {
		d.wrong.unreadable(path, "must be a whole number, is %s", kindOf(raw))
		return
	}
	*into = value
}

func (d *decoder) number(path string, raw any, into *float64) {
	switch value := raw.(type) {
	case int:
		*into = float64(value)
	case float64:
		if math.IsNaN(value) || math.IsInf(value, 0) {
			d.wrong.unreadable(path, "must be a number")
			return
		}
		*into = value
	default:
		d.wrong.unreadable(path, "must be a number, is %s", kindOf(raw))
	}
}

// entries decodes a mapping whose keys are free.
func entries[V any](d *decoder, path string, raw any, one func(*decoder, string, any, *V)) map[string]V {
	values, is := raw.(map[string]any)
	if !is {
		d.wrong.unreadable(path, "must be a mapping, is %s", kindOf(raw))
		return nil
	}
	decoded := make(map[string]V, len(values))
	for _, key := range sortedKeys(values) {
		var value V
		one(d, join(path, key), values[key], &value)
		decoded[key] = value
	}
	return decoded
}

func sortedKeys[V any](values map[string]V) []string {
	keys := make([]string, 0, len(values))
	for key := range values {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// kindOf names the kind of a value. It does not show it: it may be a secret.
func kindOf(raw any) string {
	switch raw.(type) {
	case nil:
		return "empty"
	case string:
		return "text"
	case bool:
		return "true or false"
	case int, int64, uint64:
		return "a whole number"
	case float64:
		return "a number"
	case time.Time:
		return "a date"
	case []any:
		return "a list"
	default:
		return "a mapping"
	}
}

func quoteIt(raw any) string {
	switch raw.(type) {
	case bool, int, int64, uint64, float64, time.Time:
		return ": put it in quotes"
	default:
		return ""
	}
}

// didYouMean offers the known word that is close.
func didYouMean(word string, known []string) string {
	meant := spelling.Closest(word, known)
	if meant == "" {
		return ""
	}
	return fmt.Sprintf(", did you mean %s?", meant)
}
