package page

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hap-worker/hap-worker/engine/account"
)

var (
	variable = regexp.MustCompile(`--([a-z0-9-]+):\s*(#[0-9a-f]{6})`)
	block    = regexp.MustCompile(`([^{}]+)\{([^{}]*)\}`)
)

// stylesheet is the page's, as far as the test of colours reads it.
type stylesheet struct {
	light, dark map[string]string // variables
	fill, lines map[string]string // of classes in bars, the variable

}

func readStyle(t *testing.T) stylesheet {
	t.Helper()
	text, err := assetFiles.ReadFile("assets/page.css")
	if err != nil {
		t.Fatal(err)
	}
	css := string(text)
	roots := regexp.MustCompile(`(?s):root \{(.*?)\}`).FindAllStringSubmatch(css, 2)
	if len(roots) != 2 {
		t.Fatalf("%d sets of colours, want light and dark", len(roots))
	}
	s := stylesheet{light: map[string]string{}, dark: map[string]string{}, fill: map[string]string{}, lines: map[string]string{}}
	for i, into := range []map[string]string{s.light, s.dark} {
		for _, v := range variable.FindAllStringSubmatch(roots[i][1], -1) {
			into[v[1]] = v[2]
		}
	}
	value := func(property, body string) string {
		m := regexp.MustCompile(`(?:^|[; ])` + property + `:\s*var\(--([a-z0-9]+)\)`).FindStringSubmatch(body)
		if m == nil {
			return ""
		}
		return m[1]
	}
	for _, r := range block.FindAllStringSubmatch(css, -1) {
		for selector := range strings.SplitSeq(r[1], ",") {
			selector = strings.TrimSpace(selector)
			class, inBar := strings.CutPrefix(selector, ".bar > .")
			if fill := value("fill", r[2]); fill != "" && strings.HasPrefix(selector, ".") && !strings.ContainsAny(selector, " >") {
				s.fill[selector[1:]] = fill
			}
			if stroke := value("stroke", r[2]); stroke != "" && inBar {
				s.lines[class] = stroke
			}
			if outline := regexp.MustCompile(`outline: 1px solid var\(--([a-z0-9]+)\)`).FindStringSubmatch(r[2]); outline != nil {
				s.lines[selector] = outline[1]
			}
			if strings.HasPrefix(selector, "svg .") {
				s.lines[selector] = value("stroke", r[2]) + value("fill", r[2])
			}
		}
	}
	return s
}

// TestSegmentsStandOut computes the contrast of every segment of a bar by the formula of
// WCAG 2, in light and dark: 3:1 against the card around the bar and the gaps in it, by its
// fill, or by the line around it and, where it has one, the pattern on it.
func TestSegmentsStandOut(t *testing.T) {
	t.Parallel()
	s := readStyle(t)
	classes := []string{"level0", "level1", "level2", "level3", "level4", "level5", "fill"}
	for _, state := range account.States() {
		if state != account.InUse {
			classes = append(classes, string(state))
		}
	}
	for name, colours := range map[string]map[string]string{"light": s.light, "dark": s.dark} {
		for _, class := range classes {
			fill, card := colours[s.fill[class]], colours["card"]
			if fill == "" {
				t.Errorf("%s: segments of class %s have no colour", name, class)
				continue
			}
			if contrastOf(t, fill, card) >= 3 {
				continue
			}
			line := colours[s.lines[class]]
			if class == string(account.Free) {
				line = colours[s.lines[".bar"]] // it is the rest of the bar
			}
			if line == "" || contrastOf(t, line, card) < 3 || contrastOf(t, line, fill) < 3 {
				t.Errorf("%s: %s has neither a fill nor a line of 3:1", name, class)
			}
			pattern := segment{Class: class}.Pattern()
			ink := map[string]string{"hatch": "svg .ink", "bars": "svg .ink", "dots": "svg .inkfill"}[pattern]
			if class != string(account.Free) && (ink == "" || contrastOf(t, colours[s.lines[ink]], fill) < 3) {
				t.Errorf("%s: the pattern %q of %s has less than 3:1", name, pattern, class)
			}
		}
		levels := []float64{}
		for _, class := range []string{"level1", "level2", "level3", "level4", "level5"} {
			levels = append(levels, contrastOf(t, colours[s.fill[class]], colours["card"]))
		}
		if !slices.IsSorted(levels) {
			t.Errorf("%s: the fuller does not stand out the more: %v", name, levels)
		}
		for _, word := range []string{"red", "amber", "soft", "ink", "accent"} {
			if c := contrastOf(t, colours[word], colours["card"]); c < 4.5 {
				t.Errorf("%s: text in %s has %.2f:1", name, word, c)
			}
		}
	}
}

func contrastOf(t *testing.T, first, second string) float64 {
	t.Helper()
	light := func(colour string) float64 {
		sum := 0.0
		for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
			n, err := strconv.ParseUint(colour[1+2*i:3+2*i], 16, 8)
			if err != nil {
				t.Fatalf("%q is no colour: %v", colour, err)
			}
			v := float64(n) / 255
			if v <= 0.03928 {
				v /= 12.92
			} else {
				v = math.Pow((v+0.055)/1.055, 2.4)
			}
			sum += weight * v
		}
		return sum
	}
	a, b := light(first), light(second)
	return (max(a, b) + 0.05) / (min(a, b) + 0.05)
}
