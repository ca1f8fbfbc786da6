package promrules_test

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
)

const dashboardFile = "../../deploy/grafana/hap-worker.json"

// panel is a panel of a Grafana dashboard, with the fields that the tests use.
type panel struct {
	ID      int                      `json:"id"`
	Type    string                   `json:"type"`
	Title   string                   `json:"title"`
	At      struct{ H, W, X, Y int } `json:"gridPos"`
	Targets []struct {
		Expr   string `json:"expr"`
		Legend string `json:"legendFormat"`
	} `json:"targets"`
}

func dashboard(t *testing.T) []panel {
	t.Helper()
	content, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Panels []panel `json:"panels"`
	}
	if err := json.Unmarshal(content, &d); err != nil {
		t.Fatal(err)
	}
	return d.Panels
}

// asked returns a query as Grafana sends it with every variable set to All and an interval of 2 minutes.
func asked(query string) string {
	return strings.NewReplacer("$__rate_interval", "2m", "$namespace", ".*", "$pool", ".*").Replace(query)
}

// parse parses a query, and checks that its metrics have the worker's prefixes. A test of package integration,
// TestAlertsAndDashboardReadWhatIsExported, checks that a worker exports them with the labels of the query.
func parse(t *testing.T, where, query string) parser.Expr {
	t.Helper()
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(asked(query))
	if err != nil {
		t.Errorf("%s: %s: %v", where, query, err)
		return nil
	}
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		if s, ok := n.(*parser.VectorSelector); ok && !own.MatchString(s.Name) {
			t.Errorf("%s reads %q, which is no metric of the worker", where, s)
		}
		return nil
	})
	return expr
}

var own = regexp.MustCompile(`^(hap|keb)_[a-z_]+$`)

// TestDashboard: every query parses and keeps the labels of its legend, and no two
// panels overlap.
func TestDashboard(t *testing.T) {
	t.Parallel()
	panels := dashboard(t)
	label := regexp.MustCompile(`\{\{(\w+)\}\}`)
	ids, taken := map[int]bool{}, map[[2]int]string{}
	for _, p := range panels {
		if ids[p.ID] || p.Title == "" {
			t.Errorf("panel %d %q has the id of another one, or no title", p.ID, p.Title)
		}
		ids[p.ID] = true
		for x := p.At.X; x < p.At.X+p.At.W; x++ {
			for y := p.At.Y; y < p.At.Y+p.At.H; y++ {
				if other, is := taken[[2]int{x, y}]; is || x >= 24 {
					t.Fatalf("%s lies upon %q, or beyond the border", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if (len(p.Targets) == 0) != (p.Type == "row") {
			t.Errorf("%s has %d queries", p.Title, len(p.Targets))
		}
		for _, target := range p.Targets {
			expr := parse(t, p.Title, target.Expr)
			if expr == nil {
				continue
			}
			kept := keeps(expr)
			for _, l := range label.FindAllStringSubmatch(target.Legend, -1) {
				if !slices.Contains(kept, l[1]) {
					t.Errorf("%s: the legend %s wants %s, the query keeps %v", p.Title, target.Legend, l[1], kept)
				}
			}
		}
	}
}

// TestDashboardLeavesShadowsOut: no query counts a shadow's series as a worker's.
func TestDashboardLeavesShadowsOut(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	selector := regexp.MustCompile(`\b((?:hap|keb)_[a-z_]+)(\{[^}]*\})?`)
	for _, query := range regexp.MustCompile(`"(?:expr|query)": "(.*)"`).FindAllStringSubmatch(string(content), -1) {
		for _, s := range selector.FindAllStringSubmatch(query[1], -1) {
			if out := strings.Contains(s[2], `mode!=\"shadow\"`); out == strings.HasPrefix(s[1], "hap_shadow_") {
				t.Errorf("%s: %s leaves a shadow out %t", query[1], s[0], out)
			}
		}
	}
}

// TestDashboardShowsLandscapesApart: no query merges series of two namespaces, and each legend names the namespace.
func TestDashboardShowsLandscapesApart(t *testing.T) {
	t.Parallel()
	for _, p := range dashboard(t) {
		for _, target := range p.Targets {
			if !strings.HasPrefix(target.Legend, "{{namespace}}") {
				t.Errorf("%s: the legend %q does not begin with the namespace", p.Title, target.Legend)
			}
			parser.Inspect(parse(t, p.Title, target.Expr), func(n parser.Node, _ []parser.Node) error {
				if a, ok := n.(*parser.AggregateExpr); ok && (a.Without || !slices.Contains(a.Grouping, "namespace")) {
					t.Errorf("%s: %s merges the landscapes", p.Title, a)
				}
				return nil
			})
		}
	}
}

// TestPanelsOfTwoLandscapes: panels show what is so in each of two landscapes; nothing, where no worker takes events.
func TestPanelsOfTwoLandscapes(t *testing.T) {
	t.Parallel()
	const series = `load 1m
  hap_redis_built{namespace="a",pod="1"} 1
  hap_redis_built{namespace="a",pod="2"} 0
  hap_redis_built{namespace="b",pod="1"} 0
  hap_redis_built{namespace="b",pod="2",mode="shadow"} 1
  hap_consumer_up{namespace="a",pod="1"} 1
  hap_consumer_up{namespace="b",pod="1"} 1
  hap_consumer_up{namespace="silent",pod="1"} 0
  hap_waiting_requests{namespace="a",pod="1",pool="p",reason="r"} 3
  hap_waiting_requests{namespace="a",pod="2",pool="p",reason="r"} 3
  hap_waiting_oldest_seconds{namespace="a",pod="1",pool="p"} 60
  hap_pool_bindings{namespace="a",pod="1",pool="p",state="free"} 0
  hap_pool_bindings{namespace="b",pod="1",pool="p",state="free"} 2
  keb_credentials_bindings_per_ga{namespace="a",pod="1",pool="p",global_account_id="t"} 1
  keb_credentials_bindings_per_ga{namespace="b",pod="1",pool="p",global_account_id="t"} 2

`
	for title, want := range map[string]string{
		"Redis":                          `{namespace="a"} 1|{namespace="b"} 0`,
		"Waiting":                        `{namespace="a"} 3|{namespace="b"} 0`,
		"Oldest":                         `{namespace="a"} 60|{namespace="b"} 0`,
		"Pools without a free account":   `{namespace="a"} 1|{namespace="b"} 0`,
		"Free accounts":                  `{namespace="a",pool="p"} 0|{namespace="b",pool="p"} 2`,
		"Tenants with the most accounts": `{namespace="a",global_account_id="t"} 1|{namespace="b",global_account_id="t"} 2`,
		"Workers that take events":       `{namespace="a"} 1|{namespace="b"} 1|{namespace="silent"} 0`,
	} {
		at := slices.IndexFunc(dashboard(t), func(p panel) bool { return p.Title == title })
		if at < 0 {
			t.Errorf("no panel %s", title)
			continue
		}
		t.Run(title, func(t *testing.T) {
			promqltest.RunTest(t, series+"eval instant at 0m "+asked(dashboard(t)[at].Targets[0].Expr)+"\n  "+strings.ReplaceAll(want, "|", "\n  ")+"\n",
				promqltest.NewTestEngine(t, false, 0, promqltest.DefaultMaxSamplesPerQuery))
		})
	}
}

// keeps returns the labels of the outermost aggregation with a by clause, topk apart.
func keeps(expr parser.Expr) (labels []string) {
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		if a, ok := n.(*parser.AggregateExpr); ok && labels == nil && a.Op != parser.TOPK {
			labels = a.Grouping
		}
		return nil
	})
	return labels
}

// TestAlertsReadTheWorker: alerts read no metrics but the worker's.
func TestAlertsReadTheWorker(t *testing.T) {
	t.Parallel()
	known := alerts(t)
	for _, name := range slices.Sorted(maps.Keys(known)) {
		parse(t, name, known[name].Expr)
	}
}

// unread are metrics that neither dashboard nor alerts read, and why.
var unread = map[string]string{
	"hap_epoch_check_seconds":      "a part of hap_event_duration_seconds",
	"hap_ledger_purged_total":      "retention at work; its failures are in the log",
	"hap_shadow_comparisons_total": "a shadow runs for days; hapctl migrate compare shows what it found",
}

// TestEveryMetricIsRead: the dashboard or an alert reads each metric that docs/telemetry.md lists, or unread names it.
func TestEveryMetricIsRead(t *testing.T) {
	t.Parallel()
	var readers strings.Builder
	for _, p := range dashboard(t) {
		for _, target := range p.Targets {
			readers.WriteString(target.Expr + "\n")
		}
	}
	for _, alert := range alerts(t) {
		readers.WriteString(alert.Expr + "\n")
	}
	content, err := os.ReadFile("../../docs/telemetry.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := regexp.MustCompile("(?m)^\\| `((?:hap|keb)_[a-z_]+)`").FindAllStringSubmatch(string(content), -1)
	if len(listed) < 40 {
		t.Fatalf("docs/telemetry.md lists %d metrics", len(listed))
	}
	for _, m := range listed {
		read := regexp.MustCompile(`\b` + m[1] + `(_bucket|_count|_sum)?\b`).MatchString(readers.String())
		if _, known := unread[m[1]]; read == known {
			t.Errorf("%s: read by dashboard or alerts %t, listed as unread %t", m[1], read, known)
		}
	}
}
