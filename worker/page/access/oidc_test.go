package access

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/coreos/go-oidc/v3/oidc/oidctest"
	"golang.org/x/oauth2"
)

// issuer is an OpenID Connect issuer of a test.
type issuer struct {
	t      *testing.T
	server *httptest.Server
	key    *rsa.PrivateKey
	down   bool
	// keyless says that only its keys cannot be fetched.
	keyless bool
	// fetched is how often its keys were asked for.
	fetched atomic.Int32
	// of the login that is under way
	challenge, nonce string
	claims           map[string]any // beside the usual ones
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	i := &issuer{t: t, key: key}
	known := &oidctest.Server{PublicKeys: []oidctest.PublicKey{{PublicKey: key.Public(), KeyID: "k1", Algorithm: oidc.RS256}}}
	i.server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case i.down:
			http.Error(w, "down", http.StatusInternalServerError)
		case r.URL.Path == "/token":
			i.token(w, r)
		default:
			if r.URL.Path == "/keys" {
				i.fetched.Add(1)
				if i.keyless {
					http.Error(w, "down", http.StatusInternalServerError)
					return
				}
			}
			known.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(i.server.Close)
	known.SetIssuer(i.server.URL)
	return i
}

// token exchanges a code: PKCE and the client's secret have to be right.
func (i *issuer) token(w http.ResponseWriter, r *http.Request) {
	if _, secret, _ := r.BasicAuth(); secret != "client-secret" || r.FormValue("code") != "the-code" || oauth2.S256ChallengeFromVerifier(r.FormValue("code_verifier")) != i.challenge {
		http.Error(w, `{"error":"invalid_grant"}`, http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"access_token": "a", "token_type": "Bearer", "id_token": i.sign(map[string]any{"nonce": i.nonce})})
}

// sign makes an ID token.
func (i *issuer) sign(more map[string]any) string {
	claims := map[string]any{"iss": i.server.URL, "aud": "hap", "sub": "somebody", "exp": noon.Add(time.Hour).Unix(), "iat": noon.Unix(), "groups": []string{"others", "operators"}}
	maps.Copy(claims, i.claims)
	maps.Copy(claims, more)
	text, err := json.Marshal(claims)
	if err != nil {
		i.t.Error(err)
	}
	return oidctest.SignIDToken(i.key, "k1", oidc.RS256, string(text))
}

// page returns a page with a login at the issuer.
func (i *issuer) page(change ...func(*Rules)) (*served, *logged) {
	i.t.Helper()
	dir := i.t.TempDir()
	ca, secret := filepath.Join(dir, "ca.crt"), filepath.Join(dir, "secret")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.server.Certificate().Raw})
	for file, content := range map[string]string{ca: string(block), secret: "client-secret\n"} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			i.t.Fatal(err)
		}
	}
	rules := Rules{Listen: ":8443", OIDC: OIDC{
		Issuer: i.server.URL, ClientID: "hap", ClientSecretFile: secret, RedirectURL: "https://hap.example" + CallbackPath,
		Groups: []string{"operators"}, GroupsClaim: "groups", Scopes: []string{"groups"}, CA: ca,
	}}
	for _, f := range change {
		f(&rules)
	}
	return serve(i.t, rules)
}

// browser keeps cookies as a browser does.
type browser struct {
	t       *testing.T
	page    http.Handler
	cookies map[string]string
}

func (b *browser) get(path string) *httptest.ResponseRecorder {
	b.t.Helper()
	var cookies []string
	for name, value := range b.cookies {
		cookies = append(cookies, name+"="+value)
	}
	w := get(b.t, b.page, path, "Accept", "text/html,application/xhtml+xml", "Cookie", strings.Join(cookies, "; "))
	for _, c := range w.Result().Cookies() {
		if !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || c.Domain != "" || !strings.HasPrefix(c.Name, "__Host-") {
			b.t.Errorf("the cookie is %s", c)
		}
		b.cookies[c.Name] = c.Value
		if c.MaxAge < 0 {
			delete(b.cookies, c.Name)
		}
	}
	return w
}

// begin asks for a page and returns the callback of a login that succeeds.
func (b *browser) begin(i *issuer, path string) string {
	b.t.Helper()
	w := b.get(path)
	at, err := url.Parse(w.Header().Get("Location"))
	if err != nil || w.Code != http.StatusFound || !strings.HasPrefix(at.String(), i.server.URL+"/auth?") {
		b.t.Fatalf("%d to %s: %v\n%s", w.Code, at, err, w.Body)
	}
	q := at.Query()
	if q.Get("redirect_uri") != "https://hap.example/oidc/callback" || q.Get("scope") != "openid groups" || q.Get("code_challenge_method") != "S256" {
		b.t.Errorf("the issuer is asked for %v", q)
	}
	i.challenge, i.nonce = q.Get("code_challenge"), q.Get("nonce")
	return CallbackPath + "?code=the-code&state=" + q.Get("state")
}

// TestIssuer is a login from the first request to the page, at another worker too.
func TestIssuer(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	first, _ := i.page()
	second, _ := i.page()
	b := &browser{t: t, page: first, cookies: map[string]string{}}
	callback := b.begin(i, "/tenants?tenant=ga-1")
	b.page = second
	if w := b.get(callback); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/tenants?tenant=ga-1" {
		t.Fatalf("the callback: %d to %q\n%s", w.Code, w.Header().Get("Location"), w.Body)
	}
	b.page = first
	if w := b.get("/"); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "aws") {
		t.Errorf("after the login: %d\n%s", w.Code, w.Body)
	}
	if len(b.cookies) != 1 {
		t.Errorf("the cookies are %v", b.cookies)
	}
	first.now = func() time.Time { return noon.Add(2 * time.Hour) }
	if w := b.get("/"); w.Code != http.StatusFound {
		t.Errorf("after the token's end: %d", w.Code)
	}
}

// TestIssuerRefuses covers everything that is refused, and the responses.
func TestIssuerRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(i *issuer, b *browser, callback string) string
		code   int
		says   string
	}{
		"another browser":  {func(_ *issuer, b *browser, c string) string { clear(b.cookies); return c }, 400, "no login is under way"},
		"another state":    {func(_ *issuer, _ *browser, c string) string { return c + "x" }, 400, "another login"},
		"another nonce":    {func(i *issuer, _ *browser, c string) string { i.nonce = "x"; return c }, 403, "the login failed"},
		"another verifier": {func(i *issuer, _ *browser, c string) string { i.challenge = "x"; return c }, 403, "the login failed"},
		"another client":   {func(i *issuer, _ *browser, c string) string { i.claims = map[string]any{"aud": "x"}; return c }, 403, "the login failed"},
		"another issuer":   {func(i *issuer, _ *browser, c string) string { i.claims = map[string]any{"iss": "x"}; return c }, 403, "the login failed"},
		"expired":          {func(i *issuer, _ *browser, c string) string { i.claims = map[string]any{"exp": 1}; return c }, 403, "the login failed"},
		"another group":    {func(i *issuer, _ *browser, c string) string { i.claims = map[string]any{"groups": "x"}; return c }, 403, "in no group of telemetry.page.oidc.groups"},
		"too large": {func(i *issuer, _ *browser, c string) string {
			i.claims = map[string]any{"x": strings.Repeat("x", maxCookie)}
			return c
		}, 403, "the login failed"},
		"the issuer refuses": {func(_ *issuer, _ *browser, c string) string { return c + "&error=access_denied%1b[0m" }, 403, `"access_denied\x1b[0m"`},
		"one group alone": {func(i *issuer, _ *browser, c string) string {
			i.claims = map[string]any{"groups": "operators"}
			return c
		}, 303, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := newIssuer(t)
			p, _ := i.page()
			b := &browser{t: t, page: p, cookies: map[string]string{}}
			callback := b.begin(i, "/")
			w := b.get(c.change(i, b, callback))
			if w.Code != c.code || !strings.Contains(w.Body.String(), c.says) {
				t.Errorf("%d, want %d with %q:\n%s", w.Code, c.code, c.says, w.Body)
			}
			if _, in := b.cookies[sessionCookie]; in != (c.code == http.StatusSeeOther) {
				t.Errorf("logged in: %t", in)
			}
		})
	}
}

// TestIssuerOfPrograms: an ID token works as bearer token. A request that is not a navigation is not
// redirected to the issuer.
func TestIssuerOfPrograms(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	p, _ := i.page()
	other := newIssuer(t)
	for token, want := range map[string]int{
		i.sign(nil): http.StatusOK,
		i.sign(map[string]any{"groups": []any{1, "x"}}): http.StatusForbidden,
		other.sign(map[string]any{"iss": i.server.URL}): http.StatusUnauthorized,
		"x.y.z": http.StatusUnauthorized, "x": http.StatusUnauthorized,
	} {
		if w := get(t, p, "/", "Authorization", "Bearer "+token); w.Code != want {
			t.Errorf("%d, want %d: %s", w.Code, want, w.Body)
		}
	}
	if w := get(t, p, "/", "Accept", "text/event-stream"); w.Code != http.StatusUnauthorized {
		t.Errorf("a stream without a login: %d", w.Code)
	}
}

// TestIssuerIsDown: a login says so, and succeeds once the issuer is there.
func TestIssuerIsDown(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	p, log := i.page()
	i.down = true
	b := &browser{t: t, page: p, cookies: map[string]string{}}
	for range 3 {
		if w := b.get("/"); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "cannot be asked") {
			t.Errorf("%d: %s", w.Code, w.Body)
		}
	}
	if text := log.String(); strings.Count(text, "no user can log in") != 1 {
		t.Errorf("logged %s", text)
	}
	i.down = false
	p.now = func() time.Time { return noon.Add(issuerPause) }
	b.begin(i, "/")
}

// TestSecretCannotBeRead: a browser that is not logged in learns no path of a file, and fills no log.
func TestSecretCannotBeRead(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	gone := filepath.Join(t.TempDir(), "client-secret")
	p, log := i.page(func(r *Rules) { r.OIDC.ClientSecretFile = gone })
	b := &browser{t: t, page: p, cookies: map[string]string{}}
	for range 3 {
		if w := b.get("/"); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "cannot be asked") || strings.Contains(w.Body.String(), gone) {
			t.Errorf("%d: %s", w.Code, w.Body)
		}
	}
	if text := log.String(); strings.Count(text, gone) != 1 || !strings.Contains(text, "no user can log in") {
		t.Errorf("logged %q", text)
	}
	if err := os.WriteFile(gone, []byte("client-secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	callback := b.begin(i, "/")
	if err := os.Remove(gone); err != nil {
		t.Fatal(err)
	}
	if w := b.get(callback); w.Code != http.StatusServiceUnavailable || strings.Contains(w.Body.String(), gone) {
		t.Errorf("the callback: %d: %s", w.Code, w.Body)
	}
}

// TestKeysCannotBeFetched: what cannot be checked for want of keys is no failed login, asks for them once in
// issuerPause, and ends no session under a key that is known.
func TestKeysCannotBeFetched(t *testing.T) {
	t.Parallel()
	i, other := newIssuer(t), newIssuer(t)
	p, log := i.page()
	forged := func(n int) string { return other.sign(map[string]any{"iss": i.server.URL, "jti": n}) }
	ask := func(token string, want int) {
		t.Helper()
		if w := get(t, from{p, "10.0.0.1:5"}, "/", "Authorization", "Bearer "+token); w.Code != want {
			t.Fatalf("%d, want %d: %s", w.Code, want, w.Body)
		}
	}
	i.keyless = true
	for n := range 2 * maxFailures {
		ask(i.sign(map[string]any{"jti": n}), http.StatusServiceUnavailable)
	}
	b := &browser{t: t, page: p, cookies: map[string]string{sessionCookie: i.sign(nil)}}
	if w := b.get("/"); w.Code != http.StatusServiceUnavailable {
		t.Errorf("a session: %d", w.Code)
	}
	if n := i.fetched.Load(); n != 1 || strings.Count(log.String(), "no user can log in") != 1 {
		t.Errorf("the keys were asked for %d times, logged %s", n, log)
	}
	i.keyless = false
	p.now = func() time.Time { return noon.Add(issuerPause) }
	ask(i.sign(nil), http.StatusOK)
	i.keyless = true
	for n := range 2 * maxFailures {
		ask(forged(n), http.StatusServiceUnavailable)
		ask(i.sign(map[string]any{"jti": -n}), http.StatusOK)
	}
	i.keyless = false
	p.now = func() time.Time { return noon.Add(2 * issuerPause) }
	for n := range maxFailures {
		ask(forged(n), http.StatusUnauthorized)
	}
	ask(forged(maxFailures), http.StatusTooManyRequests)
}

// TestViewersWhoGoAway: a token is no less a guess for a request that ends before the keys are there.
func TestViewersWhoGoAway(t *testing.T) {
	t.Parallel()
	i, other := newIssuer(t), newIssuer(t)
	p, _ := i.page()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for n := range maxFailures + 1 {
		r := httptest.NewRequestWithContext(gone, http.MethodGet, "/", http.NoBody)
		r.Header.Set("Authorization", "Bearer "+other.sign(map[string]any{"iss": i.server.URL, "jti": n}))
		w := httptest.NewRecorder()
		p.ServeHTTP(w, r)
		if want := map[bool]int{false: http.StatusUnauthorized, true: http.StatusTooManyRequests}[n >= maxFailures]; w.Code != want {
			t.Errorf("request %d: %d, want %d", n, w.Code, want)
		}
	}
}

// TestLocalPath: a login ends at the page, whatever a cookie says.
func TestLocalPath(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{"/": "/", "/pools/aws?x=1": "/pools/aws?x=1", "//evil.example": "/", "https://evil.example": "/", `/\evil.example`: "/", "/a\r\nb": "/", "/\t/evil.example": "/"} {
		if got := localPath(base64.RawURLEncoding.EncodeToString([]byte(path))); got != want {
			t.Errorf("%q leads to %q, want %q", path, got, want)
		}
	}
}
