package integration_test

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hap-worker/hap-worker/cmd/daemon"
)

// readers are the files of deploy that read metrics.
var readers = []string{"../deploy/prometheus/alerts.yaml", "../deploy/grafana/hap-worker.json"}

var (
	// named is a metric in a query; a dashboard's are JSON strings.
	named    = regexp.MustCompile(`\b((?:hap|keb)_[a-z_]+)(?:\{(.*?)\})?`)
	matchers = regexp.MustCompile(`(\w+)(?:=~|!~|!=|=)\\?"`)
	lists    = regexp.MustCompile(`by \(([a-z_, ]+)\) \((?:[a-z]+\()*((?:hap|keb)_[a-z_]+)`)
	// added are labels that Prometheus adds to what it scrapes, and that which only a shadow has.
	added = []string{"namespace", "mode"}
)

// wanted are the metrics that alerts and dashboard read, each with the labels that
// they ask for or group by.
func wanted(t *testing.T) map[string]map[string]bool {
	t.Helper()
	out := map[string]map[string]bool{}
	need := func(metric string, labels ...string) {
		if out[metric] == nil {
			out[metric] = map[string]bool{}
		}
		for _, label := range labels {
			if !slices.Contains(added, label) {
				out[metric][label] = true
			}
		}
	}
	for _, file := range readers {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range named.FindAllStringSubmatch(string(content), -1) {
			need(m[1])
			for _, label := range matchers.FindAllStringSubmatch(m[2], -1) {
				need(m[1], label[1])
			}
		}
		for _, m := range lists.FindAllStringSubmatch(string(content), -1) {
			need(m[2], strings.Split(m[1], ", ")...)
		}
	}
	return out
}

// exported are the metrics of a worker with the labels that any of its series has.
func exported(w *inProcess) (map[string]map[string]bool, error) {
	_, body, err := fetch(w.url + "/metrics")
	out := map[string]map[string]bool{}
	for line := range strings.Lines(body) {
		m := named.FindStringSubmatch(line)
		if m == nil || strings.HasPrefix(line, "#") {
			continue
		}
		if out[m[1]] == nil {
			out[m[1]] = map[string]bool{}
		}
		for _, label := range matchers.FindAllStringSubmatch(m[2], -1) {
			out[m[1]][label[1]] = true
		}
	}
	return out, err
}

// TestAlertsAndDashboardReadWhatIsExported has a worker meet everything that is
// counted, and holds its metrics and their labels to what alerts and dashboard read.
func TestAlertsAndDashboardReadWhatIsExported(t *testing.T) {
	t.Parallel()
	want := wanted(t)
	if len(want) < 20 || !want["hap_events_total"]["code"] || !want["hap_drift"]["kind"] {
		t.Fatalf("the files read %v", want)
	}
	delete(want, "hap_drift") // an audit is due after a minute at the earliest; TestDriftGauge sees the gauge
	const rule = `{id: %s, matchPurposes: [{operator: ContainsAll, values: [mcp]}], injections: [{path: .spec.network.%[1]s, parents: [foo], subnetSize: 28}]}`
	const spec = "parentCIDRs: {foo: [10.27.0.0/16]}\ninjectionRules: [%s]\n"
	n := newNetworked(t, "", fmt.Sprintf(spec, fmt.Sprintf(rule, "one")), accounts("aws", 1))
	w := n.work(daemon.Options{Env: []string{"HAP_TELEMETRY_TENANT_METRICS=true"}})
	served := cluster("rt-served", "ga-1", []string{"mcp"}, nil)
	n.provision(served)
	n.assigned(served)
	const large = `, {id: large, matchPurposes: [{operator: ContainsAll, values: [mcp]}], injections: [{path: .a, parents: [foo], subnetSize: 17}, {path: .b, parents: [foo], subnetSize: 17}]}`
	n.configure(fmt.Sprintf(spec, fmt.Sprintf(rule+", ", "one")+fmt.Sprintf(rule, "two")+large)) // which the cluster comes to match, and large has no room
	waiting := ask("rt-waiting", "ga-2")
	n.provision(waiting)
	n.waits(waiting)
	eventually(n.ctx, t, func() error {
		has, err := exported(w)
		if err != nil {
			return err
		}
		for _, metric := range slices.Sorted(maps.Keys(want)) {
			if has[metric] == nil {
				return fmt.Errorf("the worker exports no %s", metric)
			}
			for label := range want[metric] {
				if !has[metric][label] {
					return fmt.Errorf("%s is exported without the label %s", metric, label)
				}
			}
		}
		return nil
	})
}
