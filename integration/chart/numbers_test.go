package chart_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/worker/config"
)

// numbersOf finds the integers of the chart's own values in the schema, each with a large value that the
// schema accepts.
func numbersOf(schema map[string]any, at []string, found map[string]int) {
	properties, _ := schema["properties"].(map[string]any)
	for name, below := range properties {
		if len(at) == 0 && (name == "config" || name == "hap" || name == "network") {
			continue
		}
		below := below.(map[string]any)
		path := slices.Concat(at, []string{name})
		if strings.Contains(fmt.Sprint(below["type"]), "integer") {
			found[strings.Join(path, ".")] = 12345678
			if most, bounded := below["maximum"].(float64); bounded {
				found[strings.Join(path, ".")] = int(most) - 1
			}
		}
		numbersOf(below, path, found)
	}
}

// nested writes a value at a path, as YAML on one line.
func nested(path, value string) string {
	parts := strings.Split(path, ".")
	return "{" + strings.Join(parts, ": {") + ": " + value + strings.Repeat("}", len(parts))
}

var exponent = regexp.MustCompile(`[0-9]e[+-]?[0-9]+\b`)

// TestNumbersAreWholeInManifests: every number of the values stands in the manifests with all its digits.
func TestNumbersAreWholeInManifests(t *testing.T) {
	t.Parallel()
	schema, found := map[string]any{}, map[string]int{}
	if err := json.Unmarshal(read(t, "values.schema.json"), &schema); err != nil {
		t.Fatal(err)
	}
	numbersOf(schema, nil, found)
	if len(found) < 8 {
		t.Fatalf("the schema has only the numbers %v", found)
	}
	for path, number := range found {
		for _, written := range []string{strconv.Itoa(number), fmt.Sprintf("%d.0", number)} {
			on := "{keda: {enabled: " + strconv.FormatBool(path != "replicas") + "}, config: {telemetry: {page: {listen: ':8443'}}}}"
			files, err := filesOf(t, decided, on, nested(path, written))
			if err != nil {
				t.Errorf("%s: %v", path, err)
				continue
			}
			there := false
			for name, content := range files {
				if strings.HasSuffix(name, "dashboard.yaml") {
					continue
				}
				if odd := exponent.FindString(content); odd != "" {
					t.Errorf("%s of %s is %s in %s", path, written, odd, name)
				}
				there = there || regexp.MustCompile(`\b`+strconv.Itoa(number)+`\b`).MatchString(content)
			}
			if !there {
				t.Errorf("%s of %s is in no manifest", path, written)
			}
		}
	}
}

// TestNumbersReachTheWorker: the worker reads a number from values as it does from a configuration file. A
// number with a leading zero is octal before Helm's templates see it.
func TestNumbersReachTheWorker(t *testing.T) {
	t.Parallel()
	numbers := map[string][]string{
		"hap.multiHyperscalerAccount.limits.aws": {"1000000", "0x10", "1_000", "12345678"}, "hap.waiting.timeout": {"0", "10000s"},
		"hap.waiting.longest": {"1000000s"}, "nats.replicas": {"3", "0x3"}, "nats.maxBytes": {"1000000000000", "0x40000000", "1Gi"}, "nats.retention": {"1000000s"},
		"nats.maxAckPending": {"1000000", "12345678"}, "redis.poolSize": {"1000000", "1_000"}, "gardener.budget": {"1000000s"}, "worker.concurrency": {"1000", "0x10"},
		"worker.ackWait": {"1000000s"}, "worker.budget": {"21s"}, "worker.drain": {"1000000s"}, "worker.reconcile.interval": {"0", "1000000s"},
		"worker.shadow.interval": {"1000s"}, "worker.shadow.patience": {"1000000s"}, "telemetry.traceRatio": {"0.000001", "1e-7", "0.5", "1"},
	}
	each(reflect.TypeFor[config.Config](), "", func(path string, of reflect.Type) {
		switch of {
		case reflect.TypeFor[int](), reflect.TypeFor[int64](), reflect.TypeFor[float64](), reflect.TypeFor[time.Duration]():
			if numbers[path] == nil {
				t.Errorf("no number is tried for %s", path)
			}
		}
	})
	for path, all := range numbers {
		for _, number := range all {
			values := nested(path, number)
			if !strings.HasPrefix(path, "hap.") {
				values = "{config: " + values + "}"
			}
			byHelm := workerConfig(t, values)
			direct := load(t, nested(path, number))
			if got, want := at(byHelm, path), at(direct, path); !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %s is %v by Helm and %v in a file", path, number, got, want)
			}
		}
	}
}

// TestDurationsAndPortsOfManifests: the manifests compute from a duration or a port the value that the worker reads.
func TestDurationsAndPortsOfManifests(t *testing.T) {
	t.Parallel()
	for _, drain := range []string{"25s", "010m", "08m", "1.5m", "1.5h", "20500ms", "1m500ms", "1d12h", "1d0.5h", "90s", "1h1m1s", "25.2s", "1d", "1m30s", ".5h"} {
		values := "{config: {worker: {drain: " + drain + "}}}"
		want := int((workerConfig(t, values).Worker.Drain+time.Second-1)/time.Second) + 15
		pod := value(t, mustRender(t, values)["deployment.yaml"][0], "spec", "template", "spec").(map[string]any)
		if got := toInt(pod["terminationGracePeriodSeconds"]); got != want {
			t.Errorf("drain %s has the grace %d, want %d", drain, got, want)
		}
	}
	for listen, want := range map[string]int{":08080": 8080, ":01234": 1234, "0.0.0.0:9090": 9090} {
		pod := value(t, mustRender(t, "{config: {telemetry: {listen: '"+listen+"'}}}")["deployment.yaml"][0], "spec", "template", "spec").(map[string]any)
		port := pod["containers"].([]any)[0].(map[string]any)["ports"].([]any)[0].(map[string]any)["containerPort"]
		if toInt(port) != want {
			t.Errorf("listen %s has the port %v, want %d", listen, port, want)
		}
	}
	policy := mustRender(t, "{config: {nats: {url: 'nats://n:04222'}}, networkPolicy: {nats: [{podSelector: {}}], redis: [{podSelector: {}}], kubernetes: [{podSelector: {}}]}}")["networkpolicy.yaml"][0]
	for _, rule := range value(t, policy, "spec", "egress").([]any) {
		for _, port := range rule.(map[string]any)["ports"].([]any) {
			if number := toInt(port.(map[string]any)["port"]); number == 0o4222 {
				t.Errorf("the port 04222 of a URL is %d in the NetworkPolicy", number)
			}
		}
	}
}

// each visits the keys of the configuration.
func each(of reflect.Type, at string, visit func(path string, of reflect.Type)) {
	for field := range of.Fields() {
		key := field.Tag.Get("key")
		if key == "" {
			continue
		}
		path := strings.TrimPrefix(at+"."+key, ".")
		if field.Type.Kind() == reflect.Struct {
			each(field.Type, path, visit)
			continue
		}
		visit(path, field.Type)
	}
}

// at is the value of a key of the configuration.
func at(c *config.Config, path string) any {
	v := reflect.ValueOf(c).Elem()
	for part := range strings.SplitSeq(path, ".") {
		if v.Kind() == reflect.Map {
			return v.MapIndex(reflect.ValueOf(part)).Interface()
		}
		for field := range v.Type().Fields() {
			if field.Tag.Get("key") == part {
				v = v.FieldByIndex(field.Index)
				break
			}
		}
	}
	return v.Interface()
}
