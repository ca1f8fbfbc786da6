// Package promrules_test tests the alerts and the dashboard of deploy with Prometheus' own engine. It is a
// separate module, so that Prometheus' dependencies do not enter another one.
package promrules_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"go.yaml.in/yaml/v3"
)

const (
	alertsDir = "../../deploy/prometheus"
	chartCopy = "../../deploy/helm/hap-worker/alerts.yaml"
	runbook   = "../../docs/runbook.md"
)

// suite is a file of promtool's unit tests of alerts, with the fields that alerts_test.yaml uses.
type suite struct {
	RuleFiles []string       `yaml:"rule_files"`
	Every     model.Duration `yaml:"evaluation_interval"`
	Tests     []story        `yaml:"tests"`
}

type story struct {
	Name     string         `yaml:"name"`
	Interval model.Duration `yaml:"interval"`
	Series   []struct {
		Series string `yaml:"series"`
		Values string `yaml:"values"`
	} `yaml:"input_series"`
	Checks []check `yaml:"alert_rule_test"`
}

type check struct {
	At    model.Duration `yaml:"eval_time"`
	Alert string         `yaml:"alertname"`
	Fires []struct {
		Labels map[string]string `yaml:"exp_labels"`
	} `yaml:"exp_alerts"`
}

// want returns the labels of the alerts that must fire, sorted.
func (c check) want() []string {
	out := []string{}
	for _, f := range c.Fires {
		f.Labels["alertname"] = c.Alert
		out = append(out, labels.FromMap(f.Labels).String())
	}
	slices.Sort(out)
	return out
}

// TestAlerts evaluates the alerts on the series of alerts_test.yaml with Prometheus' engine, and checks at the
// times named there whether an alert fires, and with which labels. Every alert is checked to fire and not to fire.
func TestAlerts(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(filepath.Join(alertsDir, "alerts_test.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	decoder := yaml.NewDecoder(strings.NewReader(string(content)))
	decoder.KnownFields(true)
	var s suite
	if err := decoder.Decode(&s); err != nil {
		t.Fatal(err)
	}
	if want := []string{"alerts.yaml"}; !slices.Equal(s.RuleFiles, want) {
		t.Fatalf("the tests are of %v, want %v", s.RuleFiles, want)
	}
	fired, quiet := map[string]bool{}, map[string]bool{}
	for _, one := range s.Tests {
		t.Run(one.Name, func(t *testing.T) { one.run(t, time.Duration(s.Every)) })
		for _, c := range one.Checks {
			if len(c.Fires) > 0 {
				fired[c.Alert] = true
			} else {
				quiet[c.Alert] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(alerts(t))) {
		if !fired[name] || !quiet[name] {
			t.Errorf("%s is seen to fire: %v; not to fire: %v", name, fired[name], quiet[name])
		}
	}
}

func (s *story) run(t *testing.T, every time.Duration) {
	var load strings.Builder
	fmt.Fprintf(&load, "load %s\n", s.Interval)
	for _, in := range s.Series {
		fmt.Fprintf(&load, "  %s %s\n", in.Series, in.Values)
	}
	loader, err := promqltest.NewLazyLoader(load.String(), promqltest.LazyLoaderOpts{EnableAtModifier: true, EnableNegativeOffset: true})
	if err != nil {
		t.Fatal(err)
	}
	defer loader.Close()
	manager := rules.NewManager(&rules.ManagerOptions{
		QueryFunc: rules.EngineQueryFunc(loader.QueryEngine(), loader.Storage()), Appendable: loader.Storage(),
		Context: t.Context(), NotifyFunc: func(context.Context, string, ...*rules.Alert) {},
		Logger: promslog.NewNopLogger(), Parser: parser.NewParser(parser.Options{}),
	})
	groups, errs := manager.LoadGroups(every, labels.EmptyLabels(), "", nil, false, filepath.Join(alertsDir, "alerts.yaml"))
	if len(errs) > 0 || len(groups) == 0 {
		t.Fatalf("%d groups of rules, %v", len(groups), errs)
	}
	open := len(s.Checks)
	for at := time.Duration(0); open > 0; at += every {
		now := time.Unix(0, 0).UTC().Add(at)
		loader.WithSamplesTill(now, func(err error) {
			if err != nil {
				t.Fatal(err)
			}
			for _, g := range groups {
				g.Eval(loader.Context(), now)
			}
		})
		firing := firing(t, groups)
		for _, c := range s.Checks {
			if time.Duration(c.At) != at {
				continue
			}
			open--
			if want := c.want(); !slices.Equal(firing[c.Alert], want) {
				t.Errorf("after %s %s fires with %v, want %v", at, c.Alert, firing[c.Alert], want)
			}
		}
		if at > 24*time.Hour {
			t.Fatalf("%d checks are at no time of an evaluation", open)
		}
	}
}

// firing returns the labels of the alerts that fire now, sorted, by alert. Every alert is a key.
func firing(t *testing.T, groups map[string]*rules.Group) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for _, g := range groups {
		for _, r := range g.AlertingRules() {
			if err := r.LastError(); err != nil {
				t.Fatalf("%s: %v", r.Name(), err)
			}
			out[r.Name()] = []string{}
			for _, a := range r.ActiveAlerts() {
				if a.State == rules.StateFiring {
					out[r.Name()] = append(out[r.Name()], a.Labels.String())
					complete(t, a)
				}
			}
			slices.Sort(out[r.Name()])
		}
	}
	return out
}

// complete checks that an alert has its annotations, and that their templates were expanded.
func complete(t *testing.T, a *rules.Alert) {
	t.Helper()
	for _, name := range []string{"summary", "description", "runbook_url"} {
		if text := a.Annotations.Get(name); text == "" || strings.Contains(text, "<error") || strings.Contains(text, "{{") {
			t.Errorf("%s of %s is %q", name, a.Labels, text)
		}
	}
}

// alerts returns the alerts of the file by name.
func alerts(t *testing.T) map[string]rulefmt.Rule {
	t.Helper()
	groups, errs := rulefmt.ParseFile(filepath.Join(alertsDir, "alerts.yaml"), false, model.UTF8Validation, parser.NewParser(parser.Options{}), promslog.NewNopLogger())
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	out := map[string]rulefmt.Rule{}
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			if _, twice := out[r.Alert]; twice || r.Alert == "" {
				t.Errorf("%q is no alert, or there twice", r.Alert)
			}
			out[r.Alert] = r
		}
	}
	return out
}

// TestEveryAlertHasARunbook: each alert has a section with a command and a page, and each section is of an alert.
// TestRunbookIsReal of package integration checks what the command and the page show.
func TestEveryAlertHasARunbook(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(runbook)
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	name := ""
	for line := range strings.Lines(string(content)) {
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			name = strings.TrimSpace(heading)
		}
		sections[name] += line
	}
	delete(sections, "") // what stands before the first
	known := alerts(t)
	for _, name := range slices.Sorted(maps.Keys(known)) {
		section := sections[name]
		for _, part := range []string{"**Means**", "**Look**", "\n```text\n$ ", "**Page**", "**Do**", "**Escalate**"} {
			if !strings.Contains(section, part) {
				t.Errorf("the runbook's section %s lacks %q", name, part)
			}
		}
		if want := "https://github.com/hap-worker/hap-worker/blob/main/docs/runbook.md#" + strings.ToLower(name); known[name].Annotations["runbook_url"] != want {
			t.Errorf("%s refers to %q, want %s", name, known[name].Annotations["runbook_url"], want)
		}
		if known[name].Labels["severity"] != "critical" && known[name].Labels["severity"] != "warning" {
			t.Errorf("%s has the labels %v", name, known[name].Labels)
		}
		delete(sections, name)
	}
	for name := range sections {
		t.Errorf("the runbook has a section %q, and there is no such alert", name)
	}
}

// TestChartHasTheAlerts: the chart has a copy of the alerts, since Helm reads no file outside of the chart.
func TestChartHasTheAlerts(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile(filepath.Join(alertsDir, "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if have, err := os.ReadFile(chartCopy); err != nil || string(have) != string(source) {
		t.Errorf("the chart's alerts.yaml is not that of deploy/prometheus (%v): copy it there", err)
	}
}
