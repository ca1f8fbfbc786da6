package integration_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/chromedp"
)

// accessRules are those of WCAG 2 that can be looked up in a document: axe-core, which has
// them too, is neither a Go module nor a Debian package. Each script returns what breaks
// its rule.
var accessRules = map[string]string{
	"everything to act on has a name": `[...document.querySelectorAll("a[href], button, input, textarea, select, summary, [role=img]")]
		.filter((e) => !(e.getAttribute("aria-label") || e.labels?.length || e.textContent.trim()))`,
	"a field has a label of its own, not its placeholder alone": `[...document.querySelectorAll("input:not([type=hidden]), textarea, select")]
		.filter((e) => !e.labels?.length && !e.getAttribute("aria-label"))`,
	"the landmarks are there once": `["header", "main", "footer", "h1", "form[role=search]"].filter((s) => document.querySelectorAll(s).length !== 1)`,
	"navigations are told apart":   `(() => { const names = [...document.querySelectorAll("nav")].map((e) => e.getAttribute("aria-label")); return names.filter((n, i) => !n || names.indexOf(n) !== i); })()`,
	"no level of headings is left out": `(() => { let last = 0; return [...document.querySelectorAll("h1, h2, h3, h4, h5, h6")]
		.filter((e) => { const level = Number(e.tagName[1]); const leap = level > last + 1; last = level; return leap; }); })()`,
	"a section has a heading": `[...document.querySelectorAll("section")].filter((e) => !document.getElementById(e.getAttribute("aria-labelledby"))?.textContent.trim())`,
	"an id is there once":     `(() => { const ids = [...document.querySelectorAll("[id]")].map((e) => e.id); return ids.filter((id, i) => ids.indexOf(id) !== i); })()`,
	"what aria refers to is there": `["aria-labelledby", "aria-describedby", "aria-controls"].flatMap((a) => [...document.querySelectorAll("[" + a + "]")]
		.filter((e) => e.getAttribute(a).split(" ").some((id) => !document.getElementById(id))))`,
	"roles are roles": `[...document.querySelectorAll("[role]")].filter((e) => !["img", "status", "search", "table", "rowgroup", "row", "columnheader", "cell", "list"].includes(e.getAttribute("role")))`,
	"a table has headers for its columns": `[...document.querySelectorAll("table")].filter((t) => {
		const headers = t.querySelectorAll("thead th[scope=col]").length;
		return headers === 0 || [...t.querySelectorAll("tbody tr")].some((r) => r.children.length !== headers); })`,
	"lists have items only":                       `[...document.querySelectorAll("ul > :not(li), ol > :not(li), dl > :not(div, dt, dd)")]`,
	"the order of the keyboard is the page's":     `[...document.querySelectorAll("[tabindex]")].filter((e) => e.tabIndex > 0)`,
	"what is hidden takes no focus":               `[...document.querySelectorAll("[aria-hidden=true] a, [aria-hidden=true] button, [aria-hidden=true] input")]`,
	"what is announced does not change by itself": `[...document.querySelectorAll("[role=status] time, [aria-live] time")].filter((e) => !e.getAttribute("datetime"))`,
	"faults are announced":                        `document.getElementById("faults") && document.getElementById("faults").getAttribute("role") !== "status" ? ["#faults"] : []`,
	"the document has a language and a title":     `[document.documentElement.lang, document.title].filter((s) => !s)`,
	"every picture says what it shows":            `[...document.querySelectorAll("svg")].filter((e) => e.getAttribute("aria-hidden") !== "true" && !(e.getAttribute("role") === "img" && e.getAttribute("aria-label")))`,
	"colour is not alone":                         `[...document.querySelectorAll(".badge")].filter((e) => !e.textContent.trim() || !e.querySelector("svg.shape"))`,
	"a target is large enough for a finger":       `[...document.querySelectorAll("button, input, nav a")].filter((e) => e.getBoundingClientRect().height < 20)`,
}

// follows holds the rules on one page.
func (b *browser) follows(what string) {
	b.t.Helper()
	for rule, script := range accessRules {
		broken := eval[[]string](b, `(`+script+`).map((e) => typeof e === "string" ? e : (e?.outerHTML ?? String(e)).slice(0, 200))`)
		if len(broken) > 0 {
			b.t.Errorf("%s: %s: %s", what, rule, strings.Join(broken, "\n\t"))
		}
	}
}

// stop is where the keyboard is: its name, whether that can be seen, and its place in the document.
type stop struct {
	Name  string `json:"name"`
	Shown bool   `json:"shown"`
	Place int    `json:"place"`
}

const standing = `(() => { const e = document.activeElement, style = getComputedStyle(e), box = e.getBoundingClientRect();
	return {name: e.getAttribute("aria-label") || e.labels?.[0]?.textContent || e.textContent.trim(),
		shown: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2 && box.width > 1 && box.height > 1,
		place: [...document.querySelectorAll("*")].indexOf(e)}; })()`

// walks goes through the page with the Tab key: the first stop skips to the content, the
// others come in the document's order, and each can be seen.
func (b *browser) walks(what string) {
	b.t.Helper()
	reachable := eval[int](b, `[...document.querySelectorAll("a[href], button, input:not([type=hidden]), textarea, select")].filter((e) => !e.disabled && e.checkVisibility()).length`)
	var stops []stop
	for range min(reachable, 40) {
		b.run(chromedp.KeyEvent("\t"))
		at := eval[stop](b, standing)
		if len(stops) > 0 && at.Place <= stops[len(stops)-1].Place {
			b.t.Errorf("%s: the keyboard goes back from %+v to %+v", what, stops[len(stops)-1], at)
			return
		}
		stops = append(stops, at)
	}
	if len(stops) == 0 || stops[0].Name != "Skip to the content" {
		b.t.Errorf("%s: the first stop of the keyboard is %v", what, stops[:min(1, len(stops))])
	}
	for _, s := range stops {
		if s.Name == "" || !s.Shown {
			b.t.Errorf("%s: the keyboard stops at %+v, which has no name or does not show it", what, s)
		}
	}
}

// pageAccess tries the page as it is without a mouse and without eyes.
func pageAccess(b *browser, w *inProcess) {
	for _, path := range pagePaths {
		b.open(w.url+path, 1280, 800, false)
		b.follows(path)
		b.run(chromedp.Reload())
		b.walks(path)
	}
	b.forgive("404") // of notThere
	b.open(w.url+"/", 1280, 800, false)
	b.run(chromedp.KeyEvent("\t"), chromedp.KeyEvent("\r"))
	if at := eval[string](b, `document.activeElement.id`); at != "main" {
		b.t.Errorf("the skip link leads to %q", at)
	}
	b.reads("/", "navigation Pages", "search", "main", "contentinfo", "heading Pools", "status")
}

// reads holds that the browser's accessibility tree, which a screen reader reads,
// has nodes of a role and a name.
func (b *browser) reads(what string, nodes ...string) {
	b.t.Helper()
	eventually(b.ctx, b.t, func() error {
		tree := b.tree()
		for _, want := range nodes {
			if !slices.ContainsFunc(tree, func(node string) bool { return strings.HasPrefix(node, want) }) {
				return errors.New(what + ": a screen reader does not hear " + want + fmt.Sprint(" of ", tree[:min(60, len(tree))]))
			}
		}
		return nil
	})
}

// tree are the nodes of the accessibility tree, each its role and name.
func (b *browser) tree() []string {
	b.t.Helper()
	answer, err := chromedp.Call(b.ctx, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	if err != nil {
		b.t.Fatal(err)
	}
	text := func(v *accessibility.Value) string {
		if v == nil {
			return ""
		}
		return strings.Trim(string(v.Value), `"`)
	}
	var nodes []string
	for _, n := range answer.Nodes {
		if !n.Ignored {
			nodes = append(nodes, strings.TrimSpace(text(n.Role)+" "+text(n.Name)))
		}
	}
	return nodes
}

// pageRules: a rule that a broken page does not break holds nothing.
func pageRules(b *browser) {
	b.run(chromedp.Navigate("data:text/html," + strings.ReplaceAll(brokenPage, "\n", "")))
	for rule, script := range accessRules {
		if n := eval[int](b, `(`+script+`).length`); n == 0 {
			b.t.Errorf("a page that breaks %q passes", rule)
		}
	}
}

// brokenPage breaks every rule.
const brokenPage = `<html><body><nav></nav><h1>A</h1><h3>B</h3><section>C</section><div id="x"></div><div id="x"></div>
<div role="button" aria-describedby="none"></div><table><tbody><tr><td>1</td></tr></tbody></table><ul><p>D</p></ul>
<input tabindex="1" style="height:5px"><span aria-hidden="true"><a href="/">E</a></span><a href="/"></a>
<div id="faults" aria-live="polite"><time>now</time></div><svg></svg><span class="badge">F</span></body></html>`
