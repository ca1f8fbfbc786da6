package page

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/hap-worker/hap-worker/engine/rule"
)

func TestPlaygroundIsBounded(t *testing.T) {
	t.Parallel()
	p, _ := newPage(t, demo(), nil)
	quarter := strings.Repeat("aws;", maxRules/4-1) + "aws"
	for _, c := range []struct {
		name, fields string
		code         int
		says         string
	}{
		{"too long", "rules: " + strings.Repeat("x", maxPasted+1), http.StatusRequestEntityTooLarge, "64 KiB"},
		{"far too long", strings.Repeat("x", 6*maxPasted), http.StatusRequestEntityTooLarge, "64 KiB"},
		{"longer when encoded", "rules:\n  aws\n" + strings.Repeat("  #\n", maxPasted/5), http.StatusOK, "1 rule"},
		{"too many rules", "rules:\n" + strings.Repeat("  aws\n", maxRules+1), http.StatusOK, "1001 rules are more than the 1000"},
		{"too many members", "rules: sharedRule: " + strings.Repeat("aws;", maxRules) + "aws", http.StatusOK, "1001 members are more than"},
		{"too many members in four lists", "rules:\n  platformRegionRule: " + quarter + "\n  clusterRegionRule: " + quarter + "\n  sharedRule: " + quarter + "\n  euAccessRule: " + quarter + ";aws",
			http.StatusOK, "1001 members are more than"},
		{"aliases that grow", "rules:\n  a: &a [x,x,x,x,x,x,x,x,x]\n  b: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\n  c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n" +
			"  d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\n  e: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\n  rule: [*e,*e,*e,*e,*e,*e,*e,*e,*e]\nplan: aws", http.StatusOK, "faults.</strong>"},
	} {
		if w := post(p, c.fields); w.Code != c.code || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%s: %d, want %d with %q", c.name, w.Code, c.code, c.says)
		}
	}
	for range maxTrials {
		p.trials.take()
	}
	if w := post(p, "rules: aws\nplan: aws"); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("one trial more than may be at once got %d", w.Code)
	}
	p.trials.give()
	if w := post(p, "rules: aws\nplan: aws"); w.Code != http.StatusOK {
		t.Errorf("a free place got %d", w.Code)
	}
}

// TestSelectorsHaveTheLandscapesKeys: selectors have the labels of the configuration, for the rules in force
// and for pasted ones.
func TestSelectorsHaveTheLandscapesKeys(t *testing.T) {
	t.Parallel()
	labels := rule.LegacyLabels()
	labels.Dirty = "unclean"
	rules, err := rule.Compile([]string{"aws"}, rule.Options{Require: []string{}, Labels: labels})
	if err != nil {
		t.Fatal(err)
	}
	p, _ := newPage(t, demo(), func(o *Options) { o.Settings = func() Settings { return settings{rules} } })
	for _, fields := range []string{"plan: aws\ntenant: ga-1", "rules: aws\nplan: aws\ntenant: ga-1"} {
		text := strings.ReplaceAll(post(p, fields).Body.String(), "<wbr>", "")
		for _, selector := range []string{
			"hyperscaler-type=aws,!euAccess,shared!=true,!unclean,!internal,tenant-name=ga-1",
			"hyperscaler-type=aws,!euAccess,shared!=true,!unclean,!internal,!tenant-name",
		} {
			if !strings.Contains(text, selector) {
				t.Errorf("%q is not shown %s:\n%s", fields, selector, text)
			}
		}
	}
}

// TestWhatIsPastedIsShownAsText: the pasted rules are the only foreign text on a page.
func TestWhatIsPastedIsShownAsText(t *testing.T) {
	t.Parallel()
	p, _ := newPage(t, demo(), nil)
	const evil = `</textarea><script src="//x"></script>"><img onerror=x>`
	for _, field := range []string{"rules", "plan", "platformRegion", "hyperscalerRegion", "provider", "tenant"} {
		w := post(p, "plan: aws\n"+field+": "+evil)
		if strings.Contains(w.Body.String(), "<img") || strings.Contains(w.Body.String(), `<script src="//x"`) {
			t.Errorf("%s is not escaped", field)
		}
	}
}

// FuzzPasted: any pasted text gets an answer, and never one beyond the bounds.
func FuzzPasted(f *testing.F) {
	for _, seed := range []string{
		"aws\naws(PR=a) -> EU", "- aws\n- 'gcp -> S'", "hap:\n  rule: [aws]\n  plans: {x: {providers: [aws]}}", "sharedRule: trial;aws:eu",
		"rule: &a [aws, *a]", "- {a: 1}", "\x00", "hap: 1", "--- a\n--- b", "#",
	} {
		f.Add(seed)
	}
	plans := rule.BuiltinPlans()
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parsePasted(text)
		if err != nil {
			return
		}
		if len(p.Texts) > maxRules || len(p.Texts) == 0 && p.Older == nil {
			t.Fatalf("%d rules", len(p.Texts))
		}
		rules, err := p.Compile(rule.Options{Plans: plans, Require: []string{}})
		if (rules == nil) == (err == nil) {
			t.Fatalf("%v and %v", rules, err)
		}
	})
}

// worst returns the maximal number of rules, where each of the first half conflicts with each of the second.
func worst() string {
	var text strings.Builder
	for i := range maxRules / 2 {
		fmt.Fprintf(&text, "aws(PR=p%d)\naws(HR=h%d)\n", i, i)
	}
	return text.String()
}

// TestTheWorstRulesAreAnswered within bounds of size.
func TestTheWorstRulesAreAnswered(t *testing.T) {
	t.Parallel()
	p, _ := newPage(t, demo(), nil)
	w := post(p, "rules:\n"+regexp.MustCompile("(?m)^").ReplaceAllString(strings.TrimSpace(worst()), "  ")+"\nplan: aws")
	body := w.Body.String()
	if w.Code != http.StatusOK || !strings.Contains(body, "faults.</strong>") || !strings.Contains(body, " more</li>") || len(body) > 100_000 {
		t.Errorf("%d with %d bytes", w.Code, len(body))
	}
}

func BenchmarkLargestTrial(b *testing.B) {
	text := worst()
	for b.Loop() {
		p, err := parsePasted(text)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := p.Compile(rule.Options{Plans: rule.BuiltinPlans(), Require: []string{}}); err == nil {
			b.Fatal("rules that are ambiguous were taken")
		}
	}
}
