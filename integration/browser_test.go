package integration_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	_ "image/png" // the browser's pictures
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// browsers are the names that Chromium has on PATH.
var browsers = []string{"chromium", "chromium-browser", "google-chrome", "chrome"}

// css is a selector.
type css = chromedp.CSS

// browser is a headless Chromium with one tab.
type browser struct {
	t        *testing.T
	ctx      context.Context
	mu       sync.Mutex
	complain []string // what its console said
}

// newBrowser starts one, or says that there is none.
func newBrowser(t *testing.T) *browser {
	t.Helper()
	var path string
	for _, name := range browsers {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		if os.Getenv("HAP_REQUIRE_ALL") != "" {
			t.Fatal("chromium is required")
		}
		t.Skip("not run: chromium is not on PATH")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.UserDataDir(t.TempDir()), chromedp.WSURLReadTimeout(time.Minute),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("font-render-hinting", "none"))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	ctx, endBrowser := chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(endBrowser)
	ctx, endTab := chromedp.NewContext(ctx, chromedp.WithErrorf(t.Logf))
	b := &browser{t: t, ctx: ctx}
	var listening sync.WaitGroup
	messages := chromedp.Console(ctx)
	listening.Go(func() { b.listen(messages) })
	t.Cleanup(func() {
		endTab()
		listening.Wait()
	})
	return b
}

// listen collects errors of scripts, of the policy and of what could not be loaded.
func (b *browser) listen(messages iter.Seq2[chromedp.ConsoleMessage, error]) {
	for m, err := range messages {
		if err != nil {
			return // the tab is closed
		}
		if m.Type == "error" || m.Type == "warning" || m.IsException() {
			b.mu.Lock()
			b.complain = append(b.complain, m.String()+" "+m.URL)
			b.mu.Unlock()
		}
	}
}

func (b *browser) run(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	for _, action := range actions {
		give(b, action)
	}
}

// replaced reports whether an update of the page took an element away between the look
// for it and what was to be done to it, which did not happen then.
func replaced(err error) bool {
	return err != nil && strings.Contains(err.Error(), "Could not find node with given id")
}

// emulate sends a command of the protocol.
func emulate[P, R any](b *browser, command cdp.Command[P, R], params P) {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, command, params); err != nil {
		b.t.Fatal(err)
	}
}

// open shows a page at a size, in dark or light.
func (b *browser) open(url string, width, height int64, dark bool) {
	b.t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	emulate(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	b.run(
		chromedp.EmulateViewport(width, height), chromedp.Navigate(url), chromedp.WaitReady(css("footer")),
	)
}

// text returns what a reader sees of an element.
func (b *browser) text(selector string) string {
	b.t.Helper()
	text := give(b, chromedp.Text(css(selector)))
	return strings.Join(strings.Fields(text), " ")
}

// shows waits until an element has the text.
func (b *browser) shows(selector, want string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 30*time.Second)
	defer cancel()
	eventually(ctx, b.t, func() error {
		if got := b.text(selector); !strings.Contains(got, want) {
			return fmt.Errorf("%s shows %q, want %q", selector, got, want)
		}
		return nil
	})
}

// give does what has a result.
func give[T any](b *browser, action chromedp.Action[T]) T {
	b.t.Helper()
	result, err := chromedp.Run(b.ctx, action)
	for replaced(err) {
		result, err = chromedp.Run(b.ctx, action)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return result
}

// eval returns what a script returns.
func eval[T any](b *browser, script string) T {
	b.t.Helper()
	return give(b, chromedp.Evaluate[T](script))
}

// fits fails the test where something is wider than the window.
func (b *browser) fits(what string) {
	b.t.Helper()
	wide := eval[[]string](b, `(() => {
		const width = document.documentElement.clientWidth;
		const wide = [...document.querySelectorAll("body *")]
			.filter((e) => !e.closest("svg, .unseen, .skip, .quiet, thead") && e.getBoundingClientRect().right > width + 0.5)
			.map((e) => e.tagName + "." + e.className + " " + Math.round(e.getBoundingClientRect().right));
		if (document.documentElement.scrollWidth > width) wide.push("the page: " + document.documentElement.scrollWidth + " of " + width);
		return wide;
	})()`)
	if len(wide) > 0 {
		b.t.Errorf("%s overflows: %v", what, wide)
	}
}

// quiet fails the test for what the console said.
func (b *browser) quiet() {
	b.t.Helper()
	const last = "this is the last message"
	eval[chromedp.Void](b, `console.error("`+last+`")`)
	eventually(b.ctx, b.t, func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		if n := len(b.complain); n == 0 || !strings.Contains(b.complain[n-1], last) {
			return errors.New("the console does not tell what was written to it")
		}
		b.complain = b.complain[:len(b.complain)-1]
		return nil
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, text := range b.complain {
		b.t.Errorf("the console says: %s", text)
	}
}

// picture keeps what is shown for the docs, where HAP_SCREENSHOTS names a folder,
// and holds that it is a picture and small.
func (b *browser) picture(name string) {
	b.t.Helper()
	content := give(b, chromedp.CaptureScreenshot())
	if _, _, err := image.DecodeConfig(bytes.NewReader(content)); err != nil || len(content) > 200_000 {
		b.t.Errorf("the picture %s has %d bytes: %v", name, len(content), err)
	}
	if dir := os.Getenv("HAP_SCREENSHOTS"); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, name+".png"), content, 0o644); err != nil {
			b.t.Fatal(err)
		}
	}
}

// forgive drops what the console was expected to say.
func (b *browser) forgive(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	kept := b.complain[:0]
	for _, c := range b.complain {
		if !strings.Contains(c, text) {
			kept = append(kept, c)
		}
	}
	b.complain = kept
}
