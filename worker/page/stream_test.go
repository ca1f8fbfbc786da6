package page

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/worker/page/access"
)

// listen opens the stream of a page and returns its updates, which end with it.
func listen(t *testing.T, url string, change ...func(*http.Request)) (<-chan update, *http.Response) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	for _, f := range change {
		f(r)
	}
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

// round returns the updates up to the next time update.
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
func serve(t *testing.T, l *landscape, change ...func(*Options)) (*Page, string, context.CancelFunc) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	p, _ := newPage(t, l, func(o *Options) {
		o.Every = 5 * time.Millisecond
		for _, f := range change {
			f(o)
		}
	})
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

// TestStreamOfAPool: the stream sends the page of the list that the viewer has open.
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

// TestStreamsAreBounded fills the places with one viewer's streams: another viewer gets a place all the
// same, and the first viewer no further one.
func TestStreamsAreBounded(t *testing.T) {
	p, url, _ := serve(t, demo())
	for range maxStreams {
		if p.streams.enter("greedy") == nil {
			t.Fatal("a place is taken already")
		}
	}
	oldest, next := p.streams.places[0], p.streams.places[1]
	updates, _ := listen(t, url+"/")
	round(t, updates)
	<-oldest.lost
	if p.streams.enter("greedy") != nil {
		t.Error("who has most places gets one more")
	}
	for i := range maxStreams/2 - 1 {
		if p.streams.enter("another") == nil {
			t.Errorf("another viewer gets %d places", i)
		}
	}
	<-next.lost
	for i := 0; len(p.streams.places) < maxStreams || i < maxStreams; i++ {
		p.streams.enter(strconv.Itoa(i))
	}
	again, response := listen(t, url+"/")
	for range again {
	}
	if response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") == "" {
		t.Errorf("a viewer while each place is another's: %d", response.StatusCode)
	}
	if len(p.streams.places) != maxStreams {
		t.Errorf("%d streams", len(p.streams.places))
	}
	p.streams.leave(p.streams.places[maxStreams-1])
	updates, _ = listen(t, url+"/")
	round(t, updates)
}

// TestAStreamEndsWithItsPlace: the place goes to the viewer with fewer.
func TestAStreamEndsWithItsPlace(t *testing.T) {
	p, url, _ := serve(t, demo())
	updates, _ := listen(t, url+"/")
	round(t, updates)
	for range maxStreams - 1 {
		p.streams.enter("127.0.0.1/32")
	}
	if p.streams.enter("another") == nil {
		t.Fatal("a viewer without a place gets none")
	}
	for range updates { // ends
	}
}

// TestAStreamEndsWithItsLogin changes the password, then the token, while a viewer looks.
func TestAStreamEndsWithItsLogin(t *testing.T) {
	for name, login := range map[string]func(r *http.Request, secret string){
		"password": func(r *http.Request, secret string) { r.SetBasicAuth("ops", secret) },
		"token":    func(r *http.Request, secret string) { r.Header.Set("Authorization", "Bearer "+secret) },
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "secret")
			keep := func(secret string) {
				if err := os.WriteFile(file, []byte(secret), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			keep("old")
			rules := access.Rules{Listen: ":8080", TokenFile: file}
			if name == "password" {
				rules = access.Rules{Listen: ":8080", Username: "ops", PasswordFile: file}
			}
			_, url, _ := serve(t, demo(), func(o *Options) { o.Access = rules })
			updates, _ := listen(t, url+"/", func(r *http.Request) { login(r, "old") })
			round(t, updates)
			keep("new")
			for range updates { // ends
			}
			updates, response := listen(t, url+"/", func(r *http.Request) { login(r, "old") })
			if _, open := <-updates; open || response.StatusCode != http.StatusUnauthorized {
				t.Errorf("the browser that comes again gets %d", response.StatusCode)
			}
			updates, _ = listen(t, url+"/", func(r *http.Request) { login(r, "new") })
			round(t, updates)
		})
	}
}

// TestAStreamBecomesOld, however promptly its viewer reads.
func TestAStreamBecomesOld(t *testing.T) {
	p, url, _ := serve(t, demo())
	p.limits.stream = 20 * time.Millisecond
	updates, _ := listen(t, url+"/")
	round(t, updates)
	for range updates { // ends
	}
	updates, _ = listen(t, url+"/")
	round(t, updates)
}

// TestAViewerWhoDoesNotRead is disconnected once the buffers on the way are full.
func TestAViewerWhoDoesNotRead(t *testing.T) {
	p, _, _ := serve(t, demo())
	p.limits.write = 50 * time.Millisecond
	ended := make(chan struct{})
	mute := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for p.tell(w, r, p.overview, map[string]string{}) { // all parts each time
		}
		close(ended)
	})
	server := httptest.NewServer(mute)
	defer server.Close()
	connection, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	if _, err := io.WriteString(connection, "GET / HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Fatal("a viewer who does not read keeps its stream")
	}
}

// TestAStreamOutlivesTheListenersTimeouts, which are for answers that end.
func TestAStreamOutlivesTheListenersTimeouts(t *testing.T) {
	p, _ := newPage(t, demo(), func(o *Options) { o.Every = 5 * time.Millisecond })
	server := httptest.NewUnstartedServer(p)
	server.Config.ReadTimeout, server.Config.WriteTimeout = time.Second, time.Second
	server.Start()
	ctx, stop := context.WithCancel(t.Context())
	p.ctx = ctx
	t.Cleanup(func() {
		stop()
		server.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	updates, _ := listen(t, server.URL+"/")
	for begun := time.Now(); time.Since(begun) < 3*time.Second; {
		round(t, updates)
	}
}
