package config

import (
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/hap-worker/hap-worker/engine/document"
)

// leaf is one key of the configuration that is not a section.
type leaf struct {
	path   string        // as in the file: hap.waiting.timeout
	value  reflect.Value // the field, which can be set
	secret string        // "", "url" or "value"
	unit   string        // "" or "bytes"
}

// leaves lists the keys of c in the order of the structs.
func leaves(c *Config) []leaf { return collect(nil, "", reflect.ValueOf(c).Elem()) }

func collect(found []leaf, prefix string, section reflect.Value) []leaf {
	for i := range section.NumField() {
		field := section.Type().Field(i)
		if !field.IsExported() {
			continue
		}
		path := join(prefix, field.Tag.Get("key"))
		if field.Type.Kind() == reflect.Struct {
			found = collect(found, path, section.Field(i))
			continue
		}
		found = append(found, leaf{
			path: path, value: section.Field(i),
			secret: field.Tag.Get("secret"), unit: field.Tag.Get("unit"),
		})
	}
	return found
}

// detach copies the leaf's list or map, so that a copied configuration shares nothing.
func (l leaf) detach() {
	switch v := l.value.Interface().(type) {
	case []string:
		l.value.Set(reflect.ValueOf(slices.Clone(v)))
	case URLs:
		l.value.Set(reflect.ValueOf(slices.Clone(v)))
	case map[string]string:
		l.value.Set(reflect.ValueOf(maps.Clone(v)))
	case map[string]int:
		l.value.Set(reflect.ValueOf(maps.Clone(v)))
	case map[string]Plan:
		copied := maps.Clone(v)
		for name, plan := range copied {
			plan.Providers = slices.Clone(plan.Providers)
			copied[name] = plan
		}
		l.value.Set(reflect.ValueOf(copied))
	}
}

// plain returns the leaf's value in the form of a YAML file.
func (l leaf) plain() any {
	switch v := l.value.Interface().(type) {
	case time.Duration:
		return formatDuration(v)
	case URLs:
		if len(v) == 1 {
			return v[0]
		}
		return []string(v)
	case map[string]Plan:
		plans := map[string]any{}
		for name, plan := range v {
			plans[name] = map[string]any{"providers": plan.Providers, "default": plan.Default}
		}
		return plans
	case int64:
		if l.unit == "bytes" {
			return formatBytes(v)
		}
		return v
	default:
		return v
	}
}

func join(prefix, key string) string { return document.Field(prefix, key) }
