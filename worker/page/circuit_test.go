package page

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/worker/bulkhead"
	"github.com/hap-worker/hap-worker/worker/observe"
)

// circuitsIn reads the input of the command "circuits". A dependency in brackets has a closed circuit.
func circuitsIn(t *testing.T, input string) []observe.Circuit {
	t.Helper()
	var all []observe.Circuit
	for line := range strings.Lines(input) {
		fields := strings.SplitN(strings.TrimSpace(line), " ", 4)
		c := observe.Circuit{Dependency: strings.Trim(fields[0], "[]"), Open: fields[0][0] != '['}
		if len(fields) > 1 && fields[1] != "-" {
			c.Pool = fields[1]
		}
		if len(fields) > 2 && fields[2] != "-" {
			ago, err := time.ParseDuration(fields[2])
			if err != nil {
				t.Fatal(err)
			}
			c.Since = noon.Add(-ago)
		}
		if len(fields) > 3 {
			c.Err = errors.New(fields[3])
		}
		all = append(all, c)
	}
	return all
}

// TestEveryDependencyHasItsWords: an open circuit of no dependency is left out.
func TestEveryDependencyHasItsWords(t *testing.T) {
	t.Parallel()
	for _, d := range bulkhead.Dependencies() {
		from := &Sources{Circuits: func() []observe.Circuit { return []observe.Circuit{{Dependency: string(d), Open: true}} }}
		if shown := circuitsOf(from); len(shown) != 1 || shown[0].What == "" || shown[0].Stops == "" {
			t.Errorf("of %s the page shows %+v", d, shown)
		}
	}
}

// TestHostileCircuits: what pools are called and what errors say comes from outside. It is escaped and cut, and
// so is the number of pools, on every page with a banner.
func TestHostileCircuits(t *testing.T) {
	t.Parallel()
	const script = `<script>alert(1)</script>`
	l := demo()
	p, _ := newPage(t, l, nil)
	s := *p.sources.Load()
	all := []observe.Circuit{{Dependency: "shoots", Open: true, Err: errors.New(script + strings.Repeat("\xff", 100_000))}}
	long := strings.Repeat("p", 500)
	for i := range 1000 {
		all = append(all, observe.Circuit{
			Dependency: "records", Open: true, Since: noon, Err: all[0].Err, Pool: fmt.Sprintf(`"><img src=x onerror=alert(%04d)>%s/../../%s`, i, script, long),
		})
	}
	s.Circuits = func() []observe.Circuit { return all }
	p.Connect(s)
	for _, path := range []string{"/", "/pools/aws", "/tenants", "/tenants/ga-1", "/accounts/aws-1"} {
		body := get(t, p, path).Body.String()
		_, told, _ := strings.Cut(body, `<div class="outage circuits">`)
		told, _, _ = strings.Cut(told, "</div>")
		if len(told) > 8_000 || strings.Contains(body, "<script>alert") || strings.Contains(body, "<img") || inline.MatchString(strings.ReplaceAll(told, " onerror=alert", "")) {
			t.Errorf("%s has %d bytes of circuits:\n%s", path, len(told), told[:min(len(told), 3000)])
		}
		for _, want := range []string{"&lt;script&gt;", "and 995 more pools are not asked", "<strong>Shoots in Gardener</strong> of all pools"} {
			if !strings.Contains(told, want) {
				t.Errorf("%s lacks %q:\n%s", path, want, told)
			}
		}
	}
}
