package page

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
)

// listen opens the stream of a page and returns its updates, which end with it.
func listen(t *testing.T, url string) (<-chan update, *http.Response) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	updates := make(chan update, 100)
	go func() {
		defer close(updates)
		defer response.Body.Close()
		for lines := bufio.NewScanner(response.Body); lines.Scan(); {
			if data, is := strings.CutPrefix(lines.Text(), "data: "); is {
				var u update
				if json.Unmarshal([]byte(data), &u) == nil {
					updates <- u
				}
			}
		}
	}()
	return updates, response
}

// round has what comes until the next time is told.
func round(t *testing.T, updates <-chan update) map[string]string {
	t.Helper()
	parts := map[string]string{}
	for {
		select {
		case u, open := <-updates:
			if !open {
				t.Fatal("the stream ended")
			}
			if u.Time != "" {
				return parts
			}
			parts[u.ID] = u.HTML
		case <-time.After(10 * time.Second):
			t.Fatal("nothing came")
		}
	}
}

// serve serves a page on the test's own landscape, read anew for every update.
func serve(t *testing.T, l *landscape) (*Page, string, context.CancelFunc) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	p, _ := newPage(t, l, func(o *Options) { o.Every = 5 * time.Millisecond })
	p.ctx = ctx
	var looks atomic.Int64
	p.cache.now = func() time.Time { return noon.Add(time.Duration(looks.Add(1)) * 11 * atMostEvery / 10) } // a reading is old at the next look
	server := httptest.NewServer(p)
	t.Cleanup(func() {
		stop()
		server.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	return p, server.URL, stop
}

// TestStreamSendsWhatChanged claims an account while a viewer looks.
func TestStreamSendsWhatChanged(t *testing.T) {
	l := demo()
	_, url, stop := serve(t, l)
	updates, response := listen(t, url+"/")
	if got := response.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("content type %q", got)
	}
	if first := round(t, updates); len(first) < 7 || !strings.Contains(first["totals"], "<dd>13</dd>") {
		t.Errorf("first came %v", first)
	}
	l.claim(engine.Pool{HyperscalerType: "aws"}, "aws-11", account.Record{State: account.InUse, Tenant: "ga-11", Count: 1})
	var changed map[string]string
	for changed["pools"] == "" {
		changed = round(t, updates)
	}
	if !strings.Contains(changed["totals"], "<dd>14</dd>") || changed["networks"] != "" || changed["decisions"] != "" {
		t.Errorf("after the claim came %v", changed)
	}
	stop()
	for range updates { // ends with the page
	}
}

// TestStreamOfAPool is of the page of the list that is looked at.
func TestStreamOfAPool(t *testing.T) {
	_, url, _ := serve(t, large(300))
	updates, _ := listen(t, url+"/pools/aws?page=3")
	if first := round(t, updates); !strings.Contains(first["tiles"], "241–300 of 300") {
		t.Errorf("first came %v", first)
	}
	updates, response := listen(t, url+"/pools/none")
	if _, open := <-updates; open || response.StatusCode != http.StatusOK {
		t.Errorf("the stream of a pool that is not there: %d", response.StatusCode)
	}
}

func TestStreamsAreBounded(t *testing.T) {
	p, url, _ := serve(t, demo())
	for range maxStreams {
		if !p.streams.take() {
			t.Fatal("a seat is taken already")
		}
	}
	updates, response := listen(t, url+"/")
	for range updates {
	}
	if response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") == "" {
		t.Errorf("one more viewer got %d", response.StatusCode)
	}
	p.streams.give()
	updates, _ = listen(t, url+"/")
	round(t, updates)
}

// TestAStreamOutlivesTheListenersTimeouts, which are for answers that end.
func TestAStreamOutlivesTheListenersTimeouts(t *testing.T) {
	p, _ := newPage(t, demo(), func(o *Options) { o.Every = 5 * time.Millisecond })
	server := httptest.NewUnstartedServer(p)
	server.Config.ReadTimeout, server.Config.WriteTimeout = 50*time.Millisecond, 50*time.Millisecond
	server.Start()
	ctx, stop := context.WithCancel(t.Context())
	p.ctx = ctx
	t.Cleanup(func() {
		stop()
		server.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	updates, _ := listen(t, server.URL+"/")
	for begun := time.Now(); time.Since(begun) < 300*time.Millisecond; {
		round(t, updates)
	}
}
