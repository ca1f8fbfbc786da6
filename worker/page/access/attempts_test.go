package access

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// from asks from an address.
type from struct {
	next    http.Handler
	address string
}

func (f from) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r.RemoteAddr = f.address
	f.next.ServeHTTP(w, r)
}

func guessed(t *testing.T) (p *served, log *logged, now *time.Time) {
	t.Helper()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("right"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, log = serve(t, Rules{Listen: ":8080", TokenFile: token})
	moment := noon
	p.now = func() time.Time { return moment }
	return p, log, &moment
}

// TestGuessing: after too many failures, logins from an address have to wait. Logins from other addresses,
// and a login that succeeded recently, do not.
func TestGuessing(t *testing.T) {
	t.Parallel()
	p, log, now := guessed(t)
	ask := func(address, token string, want int) {
		t.Helper()
		if w := get(t, from{p, address}, "/assets/page.css", "Authorization", "Bearer "+token); w.Code != want {
			t.Errorf("%s with %s: %d, want %d", address, token, w.Code, want)
		} else if wait := w.Header().Get("Retry-After"); want == http.StatusTooManyRequests && wait != "6" {
			t.Errorf("Retry-After is %q", wait)
		}
	}
	ask("10.0.0.1:5", "right", http.StatusOK)
	for n := range maxFailures {
		ask("10.0.0.1:5", fmt.Sprint("guess", n), http.StatusUnauthorized)
		ask("10.0.0.2:5", fmt.Sprint("guess", n), http.StatusUnauthorized)
	}
	ask("10.0.0.1:6", "another", http.StatusTooManyRequests)
	ask("10.0.0.1:7", "right", http.StatusOK)            // it was right before
	ask("[2001:db8::1]:7", "x", http.StatusUnauthorized) // from elsewhere
	if text := log.String(); strings.Count(text, "too many failed logins") != 1 || !strings.Contains(text, "10.0.0.1/32") {
		t.Errorf("logged %s", text)
	}
	*now = now.Add(perFailure)
	ask("10.0.0.1:5", "guess", http.StatusUnauthorized)
	ask("10.0.0.1:5", "guess", http.StatusTooManyRequests)
	for n := range maxFailures { // of one network that a host has
		ask(fmt.Sprintf("[2001:db8::%x]:1", n+2), "x", http.StatusUnauthorized)
	}
	ask("[2001:db8::ffff]:1", "x", http.StatusTooManyRequests)
	if w := get(t, from{p, "10.0.0.1:5"}, "/assets/page.css"); w.Code != http.StatusUnauthorized {
		t.Errorf("without a login: %d, it is no attempt", w.Code)
	}
}

// TestGuessingWhileTheIssuerIsDown: ID tokens that cannot be checked are no logins, and push none out.
func TestGuessingWhileTheIssuerIsDown(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("right"), 0o600); err != nil {
		t.Fatal(err)
	}
	nothing := httptest.NewServer(nil)
	nothing.Close()
	p, _ := serve(t, Rules{Listen: ":8080", TokenFile: file, OIDC: OIDC{Issuer: nothing.URL, ClientID: "hap"}})
	ask := func(token string, want int) {
		t.Helper()
		if w := get(t, from{p, "10.0.0.1:5"}, "/assets/page.css", "Authorization", "Bearer "+token); w.Code != want {
			t.Fatalf("%s: %d, want %d", token, w.Code, want)
		}
	}
	ask("right", http.StatusOK)
	for n := range maxLogins + 1 {
		ask(fmt.Sprint("x.y.", n), http.StatusServiceUnavailable)
	}
	for n := range maxFailures {
		ask(fmt.Sprint("guess", n), http.StatusUnauthorized)
	}
	ask("another", http.StatusTooManyRequests)
	ask("right", http.StatusOK)
}

// TestForgedSessions: each token under an unknown key has the issuer asked for its keys, so forged cookies are failed
// logins. A session that began here goes on beside them, and one that is over costs nothing.
func TestForgedSessions(t *testing.T) {
	t.Parallel()
	i, other := newIssuer(t), newIssuer(t)
	p, _ := i.page()
	ask := func(token string) int {
		t.Helper()
		return get(t, from{p, "10.0.0.1:5"}, "/assets/page.css", "Cookie", sessionCookie+"="+token).Code
	}
	for range 3 * maxFailures {
		if code := ask(i.sign(map[string]any{"exp": noon.Add(-time.Hour).Unix()})); code != http.StatusUnauthorized {
			t.Fatalf("a session that is over: %d", code)
		}
	}
	codes := map[int]int{}
	for n := range 3 * maxFailures {
		codes[ask(other.sign(map[string]any{"iss": i.server.URL, "jti": n}))]++
	}
	if codes[http.StatusUnauthorized] != maxFailures || codes[http.StatusTooManyRequests] != 2*maxFailures || i.fetched.Load() > 1+maxFailures {
		t.Errorf("answers %v, and the keys were fetched %d times", codes, i.fetched.Load())
	}
	b := &browser{t: t, page: from{p, "10.0.0.1:5"}, cookies: map[string]string{}}
	b.get(b.begin(i, "/"))
	if w := b.get("/"); w.Code != http.StatusOK {
		t.Errorf("a login from the same address: %d, %s", w.Code, w.Body)
	}
}

// TestGuessingTakesTurns: a successful login does not use up the allowance.
func TestGuessingTakesTurns(t *testing.T) {
	t.Parallel()
	p, _, _ := guessed(t)
	for n := range 3 * maxFailures {
		if w := get(t, from{p, "10.0.0.1:5"}, "/assets/page.css", "Authorization", "Bearer right"); w.Code != http.StatusOK {
			t.Fatalf("attempt %d: %d", n, w.Code)
		}
	}
}

// TestGuessingFromEverywhere: the number of remembered addresses is limited.
func TestGuessingFromEverywhere(t *testing.T) {
	t.Parallel()
	now := noon
	a := newAttempts(func() time.Time { return now }, func(string) {})
	held := 0
	for n := range 2 * maxAddresses {
		ended, wait := a.begin("x", prefixOf(fmt.Sprintf("10.%d.%d.1:1", n/256, n%256)))
		if wait > 0 {
			held++
			continue
		}
		ended(failed)
	}
	if len(a.by) > maxAddresses || held != maxAddresses-maxFailures {
		t.Errorf("%d addresses are remembered, %d attempts were held", len(a.by), held)
	}
	now = now.Add(perFailure)
	if _, wait := a.begin("x", prefixOf("192.0.2.1:1")); wait > 0 || len(a.by) != 1 {
		t.Errorf("after a while: a wait of %s, %d addresses", wait, len(a.by))
	}
}
