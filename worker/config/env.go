package config

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hap-worker/hap-worker/engine/document"
)

const (
	envPrefix = "HAP_"
	envFile   = "HAP_CONFIG" // names the file, and is no key of it
)

// overrides are the keys that the environment sets, in the structure of a file.
type overrides struct {
	values   map[string]any
	warnings []string
}

// readEnv reads the HAP_ variables: HAP_NATS_URL is nats.url. It ignores case and underscores, so
// HAP_NATS_MAX_BYTES is nats.maxBytes. It records the variable of each key in variables, and adds faults to
// wrong, also for a key that two spellings set to different values.
func readEnv(env []string, variables map[string]string, wrong *faults) overrides {
	read := overrides{values: map[string]any{}}
	var set []variable
	known := envKeys()
	for _, entry := range env {
		name, text, _ := strings.Cut(entry, "=")
		if len(name) < len(envPrefix) || !strings.EqualFold(name[:len(envPrefix)], envPrefix) || serviceLink.MatchString(name) || name == envFile {
			continue
		}
		path, kind := known.find(name)
		if path == "" {
			read.warnings = append(read.warnings, fmt.Sprintf("%s: no such key%s", name, didYouMean(name, known.names)))
			continue
		}
		value, err := envValue(path, kind, text)
		if err != nil {
			wrong.list = append(wrong.list, document.Fault{File: name, Path: path, Kind: document.Value, Message: err.Error()})
			continue
		}
		set = append(set, variable{name, path, value})
	}
	// A mapping comes before its entries, in whichever order the environment has them.
	slices.SortStableFunc(set, func(a, b variable) int { return strings.Compare(a.path, b.path) })
	for i, v := range set {
		if i > 0 && set[i-1].path == v.path && set[i-1].name != v.name && !reflect.DeepEqual(set[i-1].value, v.value) {
			wrong.list = append(wrong.list, document.Fault{
				File: v.name, Path: v.path, Kind: document.Value,
				Message: fmt.Sprintf("is another value than that of %s, and both name this key: set one of them", set[i-1].name),
			})
		}
		variables[v.path] = v.name
		put(read.values, strings.Split(v.path, "."), v.value)
	}
	return read
}

// variable is a variable that sets the key at a path.
type variable struct {
	name, path string
	value      any
}

// serviceLink matches the variables that Kubernetes sets for a Service whose name begins with hap-.
var serviceLink = regexp.MustCompile(`(?i)_SERVICE_(HOST|PORT)(_[A-Z0-9_]+)?$|_PORT(_[0-9]+_(TCP|UDP|SCTP)(_(ADDR|PORT|PROTO))?)?$`)

type envTable struct {
	paths map[string]leaf // by squeezed name
	names []string        // the usual names of the variables
}

func envKeys() envTable {
	table := envTable{paths: map[string]leaf{}}
	all := append(leaves(Default()), leaf{path: "gardener.labels", value: reflect.ValueOf("")})
	for _, l := range all {
		table.paths[squeeze(l.path)] = l
		table.names = append(table.names, envPrefix+strings.ToUpper(strings.ReplaceAll(l.path, ".", "_")))
	}
	return table
}

// find returns the path and type of the key that a variable sets, or "".
func (t envTable) find(name string) (string, reflect.Type) {
	squeezed := squeeze(name[len(envPrefix):])
	if l, found := t.paths[squeezed]; found {
		return l.path, l.value.Type()
	}
	const limits = "hap.multiHyperscalerAccount.limits"
	if provider, found := strings.CutPrefix(squeezed, squeeze(limits)); found {
		return join(limits, provider), reflect.TypeFor[int]()
	}
	return "", nil
}

func squeeze(name string) string {
	return strings.ToLower(strings.NewReplacer("_", "", ".", "").Replace(name))
}

// envValue converts the text of a variable to the value that a file would have. Lists and mappings are YAML
// in brackets, or a,b and a=1,b=2; rules are separated by semicolons.
func envValue(path string, kind reflect.Type, text string) (any, error) {
	trimmed := strings.TrimSpace(text)
	several := kind.Kind() == reflect.Slice || kind.Kind() == reflect.Map || path == "gardener.labels"
	if several && (strings.HasPrefix(trimmed, "[") || strings.HasPrefix(trimmed, "{")) {
		return envYAML(trimmed)
	}
	switch {
	case kind == reflect.TypeFor[time.Duration]() || kind == reflect.TypeFor[int64]() || kind == reflect.TypeFor[URLs]():
		return text, nil
	case kind.Kind() == reflect.Bool:
		value, err := strconv.ParseBool(trimmed)
		if err != nil {
			return nil, fmt.Errorf("must be true or false")
		}
		return value, nil
	case kind.Kind() == reflect.Int:
		return envNumber[int](trimmed, "must be a whole number")
	case kind.Kind() == reflect.Float64:
		if whole, err := envNumber[int](trimmed, ""); err == nil {
			return whole, nil
		}
		return envNumber[float64](trimmed, "must be a number")
	case kind.Kind() == reflect.Slice:
		return envList(path, trimmed), nil
	case kind.Kind() == reflect.Map:
		return envMap(kind, trimmed)
	default:
		return text, nil
	}
}

// envNumber parses a number like one in a file.
func envNumber[N int | float64](text, otherwise string) (any, error) {
	value, err := document.Number(text)
	if _, is := value.(N); err == nil && !is {
		err = errors.New(otherwise)
	}
	return value, err
}

func envYAML(text string) (any, error) {
	r := document.Reader{Private: true}
	root, ok := r.One([]byte(text), "")
	var value any
	if ok {
		value = root.Value()
	}
	switch {
	case len(r.Faults) == 0:
		return value, nil
	case r.Faults[0].Column > 0: // other messages speak of a file or of its lines
		return nil, fmt.Errorf("is not valid YAML on one line: %s", strings.TrimPrefix(r.Faults[0].Message, "is no YAML: "))
	}
	return nil, errors.New("is not valid YAML on one line")
}

func envList(path, text string) []any {
	list := []any{}
	separator := ","
	if path == "hap.rule" {
		separator = ";" // rules contain commas
	}
	for part := range strings.SplitSeq(text, separator) {
		if part = strings.TrimSpace(part); part != "" {
			list = append(list, part)
		}
	}
	return list
}

func envMap(kind reflect.Type, text string) (any, error) {
	entries := map[string]any{}
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		key, value, found := strings.Cut(part, "=")
		if !found {
			return nil, fmt.Errorf("must be name=value pairs, separated by commas")
		}
		converted, err := envValue("", kind.Elem(), value)
		if err != nil {
			return nil, err
		}
		entries[strings.TrimSpace(key)] = converted
	}
	return entries, nil
}

func put(values map[string]any, path []string, value any) {
	for ; len(path) > 1; path = path[1:] {
		below, is := values[path[0]].(map[string]any)
		if !is {
			below = map[string]any{}
			if preset, is := values[path[0]].(string); is { // of gardener.labels
				below["preset"] = preset
			}
			values[path[0]] = below
		}
		values = below
	}
	values[path[0]] = value
}
