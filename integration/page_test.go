package integration_test

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/hap-worker/hap-worker/cmd/daemon"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/integration/stack"
)

// pageStack is the development stack with a worker in this process, after
// something went on in it.
func pageStack(t *testing.T) (*landscape, *inProcess) {
	t.Helper()
	l := landscapeOn(t, startStack(t, stack.Options{}))
	w := l.work(daemon.Options{Version: "v1.0.0"})
	asked := 0
	ask := func(n int, tenant, plan, platform, region string) {
		wave := make([]events.Event, n)
		for i := range wave {
			asked++
			wave[i] = askPlan(fmt.Sprintf("rt-%03d", asked), tenant, plan)
			wave[i].Provision.PlatformRegion, wave[i].Provision.HyperscalerRegion = platform, region
		}
		l.provision(wave...)
		for _, e := range wave {
			l.awaitReply(e, func(r events.Reply) bool { return r.Final() || r.Status == events.StatusWaiting })
		}
	}
	ask(119, "ga-demo-1", "aws", "cf-eu10", "eu-central-1")
	ask(40, "ga-demo-2", "aws", "cf-us10", "us-east-1")
	ask(9, "ga-demo-2", "azure", "cf-eu20", "westeurope")
	ask(4, "ga-demo-4", "gcp", "cf-eu30", "europe-west3")
	ask(5, "ga-demo-1", "aws", "cf-eu11", "eu-central-1")
	ask(6, "ga-trial-1", "trial", "", "")
	ask(4, "ga-trial-2", "sap-converged-cloud", "", "eu-de-1")
	for n := range 8 {
		ask(1, fmt.Sprintf("ga-small-%d", n+1), "gcp", "cf-sa30", "southamerica-east1")
	}
	ask(1, "ga-demo-9", "no-such-plan", "", "")
	if r := l.released(releaseEvent("req-release", "aws-1", 0)); r.Error == nil {
		t.Fatalf("the release of an account in use is %s", r.Status)
	}
	return l, w
}

// pagePaths are the pages, at least one under each pattern of the page's mux (TestEveryPageIsTried).
var pagePaths = []string{
	"/", "/pools/aws", "/tenants", "/find?q=ga-", "/find?q=req-rt-196", "/runtimes/rt-194", "/accounts/aws-1", "/tenants/ga-demo-1",
	"/records/rt-new/req-rt-new", "/records/binding/aws-1/req-release", "/rules?plan=aws&platformRegion=cf-eu11&tenant=ga-1", notThere,
}

// notThere is the page for all other paths, which a browser's console tells as an error.
const notThere = "/nothing"

var (
	registers  = regexp.MustCompile(`\bmux\.Handle`)
	registered = regexp.MustCompile(`\bmux\.Handle(?:Func)?\("([A-Z]+ [^"]+)"`)
)

// TestEveryPageIsTried: each page of the mux in worker/page is one that pageAccess, pageContrast and pagePhone try.
func TestEveryPageIsTried(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("../worker/page/page.go")
	if err != nil {
		t.Fatal(err)
	}
	mux, untried := http.NewServeMux(), map[string]bool{}
	for _, pattern := range registered.FindAllSubmatch(source, -1) {
		mux.HandleFunc(string(pattern[1]), http.NotFound)
		untried[string(pattern[1])] = true
	}
	if all := len(registers.FindAll(source, -1)); all != len(untried) || all < 12 {
		t.Fatalf("%d of %d patterns of the mux are understood", len(untried), all)
	}
	for _, path := range pagePaths {
		_, pattern := mux.Handler(httptest.NewRequest(http.MethodGet, path, http.NoBody))
		delete(untried, pattern)
	}
	delete(untried, "GET /assets/") // files
	delete(untried, "POST /rules")  // the page of GET /rules
	if len(untried) > 0 {
		t.Errorf("no path of pagePaths leads to %v", slices.Sorted(maps.Keys(untried)))
	}
}

// TestPage looks at the operations page of the development stack as people do.
// HAP_SCREENSHOTS=../docs/images go test -run TestPage renews the pictures of the docs.
func TestPage(t *testing.T) {
	b := newBrowser(t)
	l, w := pageStack(t)

	t.Run("it shows the pools and updates itself", func(t *testing.T) { b.t = t; pageUpdates(b, l, w) })
	t.Run("an account has a tile, a decision a record", func(t *testing.T) { b.t = t; pageLinks(b, w) })
	t.Run("the playground answers", func(t *testing.T) { b.t = t; pagePlayground(b, w) })
	t.Run("the rules of access find what they are for", func(t *testing.T) { b.t = t; pageRules(b) })
	t.Run("keyboard and screen reader lead through it", func(t *testing.T) {
		b.t = t
		pageAccess(b, w)
	})
	t.Run("it can be read", func(t *testing.T) { b.t = t; pageContrast(b, w) })
	t.Run("on a phone nothing overflows", func(t *testing.T) { b.t = t; pagePhone(b, w) })
	t.Run("everything is found", func(t *testing.T) { b.t = t; pageFinds(b, w) })
	t.Run("without JavaScript", func(t *testing.T) { b.t = t; pageWithoutScripts(b, w) })
	t.Run("in distress", func(t *testing.T) { b.t = t; pageDistress(b, l, w) })
	b.t = t
	b.quiet()
}

func pageUpdates(b *browser, l *landscape, w *inProcess) {
	b.open(w.url+"/", 1280, 1000, false)
	for _, want := range []string{"aws", "azure", "gcp_cf-sa30", "openstack_eu-de-1", "none free", "2 waiting", "1 dirty", "1 internal", "1 cordoned"} {
		b.shows("#pools", want)
	}
	b.shows("#asof", "Live")
	b.shows("#pools li:first-child", "none free")
	b.shows("#pools li:first-child .queue", "of ga-small-7 waits")
	b.shows("#pools li:first-child .queue", "the pool is empty")
	b.shows("#tenants", "ga-demo-2")
	b.shows("#answers", "ga-demo-9 rejected NoMatchingRule")
	b.picture("page-light")

	before := b.text(ofPool("aws+eu"))
	eval[chromedp.Void](b, `window.stays = true; document.querySelector('#pools a').focus()`)
	e := askPlan("rt-new", "ga-new", "aws")
	e.Provision.PlatformRegion = "cf-eu11"
	l.provision(e)
	name := l.assigned(e)
	b.shows("#answers", "rt-new ga-new assigned "+name)
	eventually(b.ctx, b.t, func() error {
		if now := b.text(ofPool("aws+eu")); now == before {
			return errors.New("the pool aws+eu shows what it did: " + now)
		}
		return nil
	})
	stays := eval[bool](b, `window.stays === true`)
	if focused := eval[bool](b, `document.activeElement === document.querySelector('#pools a')`); !stays || !focused {
		b.t.Errorf("the page was loaded again (%t) or the focus was lost (%t)", !stays, !focused)
	}

	b.run(chromedp.Click(css("#asof button")))
	b.shows("#asof", "Paused")
	shown := b.text("#totals")
	e = askPlan("rt-paused", "ga-new", "aws")
	l.provision(e)
	l.assigned(e)
	b.run(chromedp.Click(css("#asof button")))
	if now := b.text("#totals"); now != shown {
		b.t.Errorf("while it was paused the page changed from %q to %q", shown, now)
	}
	b.shows("#answers", "rt-paused")
	b.open(w.url+"/", 1280, 1000, true)
	b.shows("#asof", "Live")
	b.picture("page-dark")
}

func pageLinks(b *browser, w *inProcess) {
	b.open(w.url+"/", 1280, 800, false)
	b.run(chromedp.Click(css(`#pools a[href="/pools/aws"]`)), chromedp.WaitReady(css("#tiles .tile")))
	b.shows("#occupancy", "Accounts in use, 24 hours")
	b.shows("#occupancy", "Clusters, 30 days")
	b.shows("#tiles", "aws-1 120 / 180 claimed ga-demo-1")
	b.shows("#asof", "Live")
	b.picture("page-pool")
	b.run(chromedp.Click(css(`.filters a[href$="state=dirty"]`)), chromedp.WaitReady(css("#tiles .tile.dirty")))
	if tiles := b.text("#tiles"); strings.Contains(tiles, "aws-1 ") || !strings.Contains(tiles, "aws-8") {
		b.t.Errorf("of the dirty accounts it shows %q", tiles)
	}
	b.open(w.url+"/records/rt-new/req-rt-new", 1280, 900, false)
	for _, want := range []string{"is assigned to", "which it claimed", "aws(PR=cf-eu11) -> EU", "chosen"} {
		b.shows("main", want)
	}
}

// ofPool is the row of a pool on the overview.
func ofPool(name string) string {
	return `#pools > ul > li:has(> .poolname > a[href="/pools/` + name + `"])`
}

// pageFinds searches as an operator does who has one name, and follows it to all others.
func pageFinds(b *browser, w *inProcess) {
	search := func(what, leads string) {
		b.t.Helper()
		b.open(w.url+"/", 1280, 800, false)
		b.run(chromedp.SendKeys(css("#q"), what+"\r"), chromedp.WaitReady(css("main h1:not(.quiet)")))
		if at := eval[string](b, `location.pathname`); at != leads {
			b.t.Errorf("a search for %s leads to %s, want %s", what, at, leads)
		}
	}
	search("req-rt-196", "/find") // beside its answer there is a dead letter
	b.shows("main", "Dead letters req-rt-196 for rt-196 of ga-demo-9 since")
	b.run(chromedp.Click(css(`main a[href="/records/rt-196/req-rt-196"]`)), chromedp.WaitReady(css("main .facts")))
	b.shows("main", "NoMatchingRule")
	search("ga-demo-9", "/find")
	b.shows("main", "NoMatchingRule; hapctl dead show")
	b.run(chromedp.Click(css(`main li > a[href="/tenants/ga-demo-9"]`)), chromedp.WaitReady(css("main table")))
	b.shows("main", "rejected NoMatchingRule")
	search("req-release", "/records/binding/aws-1/req-release")
	b.shows("main", "Request req-release is rejected.")
	search("rt-001", "/runtimes/rt-001")
	b.shows("main", "aws-1")
	b.run(chromedp.Click(css(`main dl a[href="/accounts/aws-1"]`)), chromedp.WaitReady(css(".tenures")))
	b.shows(".tenures", "ga-demo-1 since before what is shown here")
	b.shows(".tenures", "and 48 more")
	b.picture("page-account")
	search("ga-demo-1", "/tenants/ga-demo-1")
	search("rt-194", "/runtimes/rt-194")
	b.shows("main", "waits for gcp_cf-sa30")
	b.open(w.url+"/find?q=ga-small", 1280, 800, false)
	b.shows("main", "ga-small-8")
	b.open(w.url+"/find?q=nothing-at-all", 1280, 800, false)
	b.shows("main", "Nothing is found")
	b.forgive("404")
}

// pageDistress takes Redis away and looks what an operator sees.
func pageDistress(b *browser, l *landscape, w *inProcess) {
	b.open(w.url+"/", 1280, 1000, false)
	b.shows("#asof", "Live")
	l.stack.Redis.Kill()
	b.shows("#faults", "Redis does not answer")
	b.shows("#faults", "Meanwhile nothing is decided")
	b.shows("#totals", "Free –")
	b.shows(ofPool("aws"), "not read")
	b.shows(ofPool("gcp_cf-sa30"), "requests wait")
	l.provision(askPlan("rt-held-1", "ga-demo-1", "aws"), askPlan("rt-held-2", "ga-demo-2", "aws"))
	b.shows("#faults", "Records in Redis of aws")
	b.picture("page-distress")
	b.follows("in distress")
	b.reads("in distress", "status")
	for _, dark := range []bool{false, true} {
		b.open(w.url+"/", 1280, 800, dark)
		if low := eval[[]string](b, contrast); len(low) > 0 {
			b.t.Errorf("in distress, dark %t: too little contrast: %v", dark, low)
		}
	}
	b.open(w.url+"/", 320, 800, false)
	b.fits("in distress")
	b.open(w.url+"/find?q=rt-held-1", 1280, 800, false)
	b.shows("main", "Not settled req-rt-held-1 for rt-held-1 of ga-demo-1 provision, published")
}

func pagePlayground(b *browser, w *inProcess) {
	b.open(w.url+"/", 1280, 800, false)
	b.run(chromedp.Click(css(`nav a[href="/rules"]`)), chromedp.WaitReady(css("#rules")))
	b.run(
		chromedp.SendKeys(css("#rules"), "aws\naws(PR=cf-eu11) -> EU\naws(PR=cf-eu11, HR=eu-central-1) -> HR, EU"),
		chromedp.SendKeys(css("#plan"), "aws"),
		chromedp.SendKeys(css("#platformRegion"), "cf-eu11"),
		chromedp.SendKeys(css("#hyperscalerRegion"), "eu-central-1"),
		chromedp.SendKeys(css("#tenant"), "ga-1"),
		chromedp.Click(css(".go button")), chromedp.WaitReady(css("#answer .match")),
	)
	b.shows("#answer .match", "3 aws(PR=cf-eu11, HR=eu-central-1) -> HR, EU")
	b.shows("#answer", "aws_eu-central-1+eu")
	b.shows("#answer .others", "2 aws(PR=cf-eu11) -> EU matches, but rule 3 names more regions")
	kept := give(b, chromedp.Value(css("#rules")))
	if !strings.HasPrefix(kept, "aws\naws(PR=cf-eu11)") {
		b.t.Errorf("the rules are %q after they were tried", kept)
	}
	b.picture("page-rules")
}

// contrast returns the texts that stand out too little from what is behind them, by
// the formula and the bounds of WCAG 2 (AA).
const contrast = `(() => {
	const parse = (c) => { const m = c.match(/[\d.]+/g).map(Number); return m.length < 4 ? [...m, 1] : m; };
	const channel = (v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
	const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
	const behind = (e) => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c[3] > 0) return c; } return [255, 255, 255, 1]; };
	const low = new Set();
	for (const e of document.querySelectorAll("body *")) {
		if (e.closest("svg, .unseen, .quiet, .off, datalist, option") || ![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())) continue;
		const style = getComputedStyle(e), size = parseFloat(style.fontSize);
		const [a, b] = [light(parse(style.color)), light(behind(e))].sort((x, y) => y - x);
		const ratio = (a + 0.05) / (b + 0.05);
		if (ratio < (size >= 24 ? 3 : 4.5)) low.add(e.tagName + "." + e.className + " " + ratio.toFixed(2));
	}
	return [...low];
})()`

func pageContrast(b *browser, w *inProcess) {
	for _, dark := range []bool{false, true} {
		for _, path := range pagePaths {
			b.open(w.url+path, 1280, 800, dark)
			if low := eval[[]string](b, contrast); len(low) > 0 {
				b.t.Errorf("%s, dark %t: too little contrast: %v", path, dark, low)
			}
		}
	}
	b.forgive("404") // of notThere
}

func pagePhone(b *browser, w *inProcess) {
	for _, width := range []int64{390, 320, 768} {
		for _, path := range pagePaths {
			b.open(w.url+path, width, 844, false)
			b.fits(fmt.Sprintf("%s at %d px", path, width))
		}
	}
	b.forgive("404") // of notThere
	b.open(w.url+"/", 390, 844, false)
	b.shows("#asof", "Live")
	b.picture("page-phone")
}

func pageWithoutScripts(b *browser, w *inProcess) {
	emulate(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	defer emulate(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{})
	code, body, err := fetch(w.url + "/")
	if err != nil || code != http.StatusOK || !strings.Contains(body, "gcp_cf-sa30") {
		b.t.Errorf("the page is %d, %v", code, err)
	}
	b.open(w.url+"/", 1280, 800, false)
	b.shows("#pools", "gcp_cf-sa30")
	if asof := b.text("#asof"); !strings.HasPrefix(asof, "As of ") || strings.Contains(asof, "Pause") {
		b.t.Errorf("it says %q of its time", asof)
	}
	b.run(
		chromedp.Click(css(`nav a[href="/rules"]`)), chromedp.WaitReady(css("#rules")),
		chromedp.SendKeys(css("#plan"), "trial"), chromedp.Click(css(".go button")), chromedp.WaitReady(css("#answer .match")),
	)
	b.shows("#answer", "aws+shared")
}
