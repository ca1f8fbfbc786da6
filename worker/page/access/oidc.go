package access

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// OIDC is a login at an OpenID Connect issuer: for a browser by the authorization code
// flow with PKCE, for a program by an ID token as bearer token.
type OIDC struct {
	// Issuer is the issuer's URL, "" for no OIDC login.
	Issuer string
	// ClientID is the page's client id at the issuer. Tokens for other clients are refused.
	ClientID string
	// ClientSecretFile has the client's secret. Defaults to none: a public client.
	ClientSecretFile string
	// RedirectURL is the page's address with CallbackPath behind it.
	RedirectURL string
	// Groups may see the page: the claim GroupsClaim has to name one of them. If Groups has Everybody, every
	// user of the issuer may.
	Groups      []string
	GroupsClaim string
	// Scopes are requested besides openid.
	Scopes []string
	// CA is a file with the CA certificates for the issuer. Defaults to the system's.
	CA string
}

const (
	// CallbackPath is where the issuer sends browsers back to.
	CallbackPath = "/oidc/callback"
	// Everybody as a group permits every user.
	Everybody = "*"
)

const (
	// The prefix __Host- prevents other hosts of the domain from setting these cookies.
	sessionCookie = "__Host-hap-session" // an ID token
	loginCookie   = "__Host-hap-login"   // the state of a login in progress
	loginTakes    = 10 * time.Minute
	maxCookie     = 3800    // bytes of a token: browsers keep 4,096 of a cookie with name and attributes
	maxAnswer     = 1 << 20 // bytes of an answer of the issuer
	issuerTimeout = 10 * time.Second
	issuerPause   = 5 * time.Second // after a failed attempt to reach it
)

// errNotInGroup is the error of a user who is known but in no permitted group.
var errNotInGroup = errors.New("you are logged in, but in no group of telemetry.page.oidc.groups")

// errIssuer is the error if the issuer's metadata or keys cannot be read, or were not requested since that failed
// less than issuerPause ago, or if the client's secret cannot be read. Viewers without a login see it, so it names no
// file.
var errIssuer = errors.New("the issuer of telemetry.page.oidc cannot be asked; the worker's log says why")

// login authenticates users at the issuer. The browser's cookies have the state of a user's login, so that
// each of several workers behind one address can go on with it.
type login struct {
	OIDC
	ctx  context.Context // of the requests for the issuer's metadata and keys
	http *http.Client
	warn func(string)
	now  func() time.Time

	mu         sync.Mutex
	provider   *oidc.Provider // nil until the issuer was reached
	verifier   *oidc.IDTokenVerifier
	tried      time.Time
	keyless    time.Time // when fetching the keys last failed
	secretless time.Time // when it was last warned of that the client's secret cannot be read
}

func newLogin(ctx context.Context, o OIDC, now func() time.Time, warn func(string)) *login {
	client := &http.Client{Timeout: issuerTimeout, Transport: bounded{&http.Transport{
		Proxy: http.ProxyFromEnvironment, IdleConnTimeout: time.Minute, MaxIdleConns: 2,
		DialTLSContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			secure, err := o.tls()
			if err != nil {
				return nil, err
			}
			return (&tls.Dialer{Config: secure}).DialContext(ctx, network, address)
		},
	}}}
	return &login{OIDC: o, ctx: oidc.ClientContext(ctx, client), http: client, now: now, warn: warn}
}

// tls rereads the CA file at every connection, so that it can be rotated.
func (o OIDC) tls() (*tls.Config, error) {
	secure := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.CA == "" {
		return secure, nil
	}
	pem, err := os.ReadFile(o.CA)
	if err != nil {
		return nil, err
	}
	secure.RootCAs = x509.NewCertPool()
	if !secure.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("telemetry.page.oidc.ca: %s has no certificate in PEM form", o.CA)
	}
	return secure, nil
}

// bounded limits the size of an issuer's response.
type bounded struct{ next http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.next.RoundTrip(r)
	if err == nil {
		answer.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(answer.Body, maxAnswer), answer.Body}
	}
	return answer, err
}

// keyRequests sends requests for the issuer's keys, but none within issuerPause after one failed. Without the pause,
// each login would send one: a login that needs keys which cannot be fetched does not count as failed, so attempts
// does not limit it.
type keyRequests struct{ of *login }

func (k keyRequests) RoundTrip(r *http.Request) (*http.Response, error) {
	k.of.mu.Lock()
	early := k.of.now().Sub(k.of.keyless) < issuerPause
	k.of.mu.Unlock()
	if early {
		return nil, errIssuer
	}
	return k.of.http.Transport.RoundTrip(r)
}

// issuer returns the issuer's metadata. It requests them until it succeeds once, at most every issuerPause.
// Until then it returns errIssuer.
func (l *login) issuer() (*oidc.Provider, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.provider != nil {
		return l.provider, nil
	}
	if l.now().Sub(l.tried) < issuerPause {
		return nil, errIssuer
	}
	provider, err := oidc.NewProvider(l.ctx, l.Issuer)
	l.tried = l.now()
	if err != nil {
		return nil, l.unreached(err)
	}
	keys := &http.Client{Timeout: issuerTimeout, Transport: keyRequests{l}}
	l.provider, l.verifier = provider, provider.VerifierContext(oidc.ClientContext(l.ctx, keys), &oidc.Config{ClientID: l.ClientID, Now: l.now})
	return provider, nil
}

func (l *login) unreached(err error) error {
	l.warn(fmt.Sprintf("no user can log in to the operations page by telemetry.page.oidc: %q", err))
	return errIssuer
}

// undecided returns errIssuer if err says that the keys for a token could not be fetched; go-oidc says so only in the
// text of the error. It returns any other error as it is, and also err after the end of ctx: a viewer that ends its
// request must not make a guess count as undecided.
func (l *login) undecided(ctx context.Context, err error) error {
	if ctx.Err() != nil || !strings.HasPrefix(err.Error(), "failed to verify signature: fetching keys ") {
		return err
	}
	return l.failed(&l.keyless, err)
}

// failed returns errIssuer. It warns of err, unless it did so less than issuerPause ago: any client can cause it.
func (l *login) failed(warned *time.Time, err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := l.now(); now.Sub(*warned) >= issuerPause {
		*warned = now
		return l.unreached(err)
	}
	return errIssuer
}

// verify returns the token if the issuer issued it for this client, it has not expired, and its user is in a
// permitted group. The error is errIssuer if the issuer's metadata or keys cannot be read, errNotInGroup for a user in
// no permitted group, and otherwise says what is wrong with the token.
func (l *login) verify(ctx context.Context, raw string) (*oidc.IDToken, error) {
	if _, err := l.issuer(); err != nil {
		return nil, err
	}
	token, err := l.verifier.Verify(ctx, raw)
	if err != nil {
		return nil, l.undecided(ctx, err)
	}
	if slices.Contains(l.Groups, Everybody) {
		return token, nil
	}
	var claims map[string]any
	if err := token.Claims(&claims); err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(groupsIn(claims[l.GroupsClaim]), func(group string) bool { return slices.Contains(l.Groups, group) }) {
		return nil, errNotInGroup
	}
	return token, nil
}

// person verifies an ID token, and returns its user as "person " and the token's subject.
func (l *login) person(ctx context.Context, raw string) (string, error) {
	token, err := l.verify(ctx, raw)
	if err != nil {
		return "", err
	}
	return "person " + token.Subject, nil
}

// remembers verifies the ID token in the browser's session cookie, and returns its user as person does. It
// returns an error if there is no such cookie.
func (l *login) remembers(r *http.Request) (string, error) {
	cookie, err := r.Cookie(sessionCookie)
	if err != nil {
		return "", err
	}
	return l.person(r.Context(), cookie.Value)
}

// groupsIn returns the groups in a claim that is a string or a list of strings, none for any other claim.
func groupsIn(claim any) (groups []string) {
	switch claim := claim.(type) {
	case string:
		return []string{claim}
	case []any:
		for _, group := range claim {
			if name, is := group.(string); is {
				groups = append(groups, name)
			}
		}
	}
	return groups
}

// client is the page's OAuth client configuration. It returns errIssuer if the client's secret cannot be read.
func (l *login) client(provider *oidc.Provider) (*oauth2.Config, error) {
	c := &oauth2.Config{ClientID: l.ClientID, RedirectURL: l.RedirectURL, Endpoint: provider.Endpoint(), Scopes: append([]string{oidc.ScopeOpenID}, l.Scopes...)}
	if l.ClientSecretFile != "" {
		secret, err := os.ReadFile(l.ClientSecretFile)
		if err != nil {
			return nil, l.failed(&l.secretless, fmt.Errorf("clientSecretFile: %w", err))
		}
		c.ClientSecret = strings.TrimSpace(string(secret))
	}
	return c, nil
}

// begin starts a login: it redirects the browser to the issuer. It answers 503 if the issuer's metadata or the
// client's secret cannot be read.
func (l *login) begin(w http.ResponseWriter, r *http.Request) {
	provider, err := l.issuer()
	if err == nil {
		var c *oauth2.Config
		if c, err = l.client(provider); err == nil {
			state, nonce, verifier := rand.Text(), rand.Text(), oauth2.GenerateVerifier()
			back := base64.RawURLEncoding.EncodeToString([]byte(r.URL.RequestURI()))
			setCookie(w, loginCookie, strings.Join([]string{state, nonce, verifier, back}, "."), l.now().Add(loginTakes))
			http.Redirect(w, r, c.AuthCodeURL(state, oidc.Nonce(nonce), oauth2.S256ChallengeOption(verifier)), http.StatusFound)
			return
		}
	}
	http.Error(w, err.Error(), http.StatusServiceUnavailable)
}

// callback completes a login: the issuer redirects the browser here. It calls succeeded with the ID token that becomes
// the session's cookie.
func (l *login) callback(w http.ResponseWriter, r *http.Request, succeeded func(token string)) {
	began, err := r.Cookie(loginCookie)
	if err != nil {
		http.Error(w, "no login is under way in this browser; begin at /", http.StatusBadRequest)
		return
	}
	parts := strings.Split(began.Value, ".")
	query := r.URL.Query()
	if len(parts) != 4 || !same(parts[0], query.Get("state")) {
		http.Error(w, "this is the answer to another login; begin again at /", http.StatusBadRequest)
		return
	}
	setCookie(w, loginCookie, "", time.Time{})
	if refused := query.Get("error"); refused != "" {
		http.Error(w, fmt.Sprintf("the issuer refuses the login: %.100q", refused), http.StatusForbidden)
		return
	}
	raw, until, err := l.exchange(r.Context(), query.Get("code"), parts[1], parts[2])
	switch {
	case errors.Is(err, errNotInGroup):
		http.Error(w, err.Error(), http.StatusForbidden)
	case errors.Is(err, errIssuer):
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	case err != nil:
		l.warn(fmt.Sprintf("a login by telemetry.page.oidc failed: %q", err))
		http.Error(w, "the login failed; the worker's log says why", http.StatusForbidden)
	default:
		succeeded(raw)
		setCookie(w, sessionCookie, raw, until)
		http.Redirect(w, r, localPath(parts[3]), http.StatusSeeOther)
	}
}

// exchange exchanges the authorization code for an ID token, and verifies it. until is the token's expiry. It
// also returns an error if the nonce is not the token's, or if the token is too long for a cookie.
func (l *login) exchange(ctx context.Context, code, nonce, verifier string) (raw string, until time.Time, err error) {
	provider, err := l.issuer()
	if err != nil {
		return "", until, err
	}
	c, err := l.client(provider)
	if err != nil {
		return "", until, err
	}
	tokens, err := c.Exchange(oidc.ClientContext(ctx, l.http), code, oauth2.VerifierOption(verifier))
	if err != nil {
		return "", until, err
	}
	raw, _ = tokens.Extra("id_token").(string)
	token, err := l.verify(ctx, raw)
	switch {
	case err != nil:
		return "", until, err
	case !same(token.Nonce, nonce):
		return "", until, errors.New("the token is of another login")
	case len(raw) > maxCookie:
		return "", until, fmt.Errorf("the token has %d bytes, and a browser keeps %d: have the issuer put fewer claims into it", len(raw), maxCookie)
	}
	return raw, token.Expiry, nil
}

// localPath decodes the path on which a login began. It returns "/" for anything but a path of this page.
func localPath(back string) string {
	path, err := base64.RawURLEncoding.DecodeString(back)
	if err != nil || !strings.HasPrefix(string(path), "/") || strings.HasPrefix(string(path), "//") || bytes.ContainsFunc(path, escapes) {
		return "/"
	}
	return string(path)
}

// escapes reports whether a browser may drop or replace r in a path, so that the path may name another host.
func escapes(r rune) bool { return r == '\\' || unicode.IsControl(r) }

// setCookie sets a cookie until a time, or deletes it if the value is empty.
func setCookie(w http.ResponseWriter, name, value string, until time.Time) {
	c := &http.Cookie{Name: name, Value: value, Path: "/", Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode, Expires: until}
	if value == "" {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
}
