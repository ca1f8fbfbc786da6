// Package access authenticates viewers of the operations page: by a password, a token, or a login at an
// OpenID Connect issuer. It limits failed logins, and serves the page's certificate from files that it
// rereads at each handshake.
package access

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
)

// Rules configure who may see the page.
type Rules struct {
	// Listen is the host:port that the page is served on, its own listener or the worker's. On a loopback
	// address the page asks for a login only if a password, a token or an issuer is set.
	Listen string
	// Username and PasswordFile are for HTTP basic authentication: the name, and the path of a file with the
	// password. If PasswordFile is "", no password is accepted.
	Username, PasswordFile string
	// TokenFile is the path of a file with a bearer token. If it is "", no such token is accepted.
	TokenFile string
	// OIDC is a login at an issuer. Defaults to none.
	OIDC OIDC
}

// Open reports whether every client may see the page without a login: none is configured, and Listen is a
// loopback address.
func (a Rules) Open() bool { return !a.asks() && Loopback(a.Listen) }

// Refuses returns the reason why the page is not served: Listen is no loopback address, and no login is
// configured. It returns "" if the page is served.
func (a Rules) Refuses() string {
	if a.asks() || Loopback(a.Listen) {
		return ""
	}
	return fmt.Sprintf("the operations page is not served: it listens on %s, which others can reach, and no login is configured. "+
		"Set telemetry.page.username with passwordFile, or telemetry.page.tokenFile, or telemetry.page.oidc; "+
		"or bind telemetry.page.listen to 127.0.0.1; or set telemetry.page.enabled to false", a.Listen)
}

func (a Rules) asks() bool { return a.PasswordFile != "" || a.TokenFile != "" || a.OIDC.Issuer != "" }

// Loopback reports whether only this machine can reach an address, host:port. It is false for an invalid
// address, and for a host that is neither localhost nor a loopback IP address.
func Loopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	return err == nil && loopbackHost(host)
}

func loopbackHost(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// guard authenticates requests before it calls next.
type guard struct {
	Rules
	next     http.Handler
	warn     func(string)
	attempts *attempts
	login    *login // nil without an issuer
}

// New returns a handler that serves next to permitted users. It calls warn with the reason if the page is not
// served, if the password, the token, the client's secret or the issuer cannot be read, if exchanging an issuer's code
// for a token fails, and, at most once a minute, if an address has to wait after failed logins. Requests for the
// issuer's metadata and keys end with ctx.
func New(ctx context.Context, a Rules, next http.Handler, now func() time.Time, warn func(string)) http.Handler {
	g := &guard{Rules: a, next: next, warn: warn, attempts: newAttempts(now, warn)}
	if a.OIDC.Issuer != "" {
		g.login = newLogin(ctx, a.OIDC, now, warn)
	}
	if why := a.Refuses(); why != "" {
		warn(why)
	}
	return g
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case g.Refuses() != "":
		http.Error(w, g.Refuses(), http.StatusForbidden)
	case g.Open() && !localName(r.Host):
		// DNS rebinding: another site may let its name resolve to this address.
		http.Error(w, "the operations page answers here by localhost or a loopback address only; "+
			"to give it another name, set a password or a token", http.StatusForbidden)
	case g.Open():
		g.admit(w, r, visit{who: prefixOf(r.RemoteAddr).String()})
	case g.login != nil && r.URL.Path == CallbackPath:
		g.login.callback(w, r, g.attempts.remember)
	case r.Header.Get("Authorization") != "":
		g.attempt(w, r)
	default:
		g.session(w, r)
	}
}

// attempt checks the request's Authorization header, and answers the request. If too many logins from its
// address have failed, it answers 429 without a check, unless it remembers the header from a successful login.
func (g *guard) attempt(w http.ResponseWriter, r *http.Request) {
	who, err := g.try(r, r.Header.Get("Authorization"), g.knows)
	g.answer(w, r, err, visit{who, func() error { _, err := g.knows(r); return err }})
}

// tooMany is the error of a request that was not checked, since too many logins from its address have failed. Its
// value is the time to wait.
type tooMany time.Duration

func (tooMany) Error() string {
	return "too many logins from your address have failed; wait, and try again"
}

// try checks the request's credential. It returns a tooMany, without a call of check, if attempts.begin says to wait,
// and otherwise the result of check.
func (g *guard) try(r *http.Request, credential string, check func(*http.Request) (who string, err error)) (string, error) {
	ended, wait := g.attempts.begin(credential, prefixOf(r.RemoteAddr))
	if wait > 0 {
		return "", tooMany(wait)
	}
	who, err := check(r)
	_, expired := errors.AsType[*oidc.TokenExpiredError](err)
	switch {
	case err == nil, errors.Is(err, errNotInGroup):
		ended(succeeded)
	case expired, errors.Is(err, errIssuer): // an expired token is no attempt to guess
		ended(undecided)
	default:
		ended(failed)
	}
	return who, err
}

// session checks the cookie of a login at the issuer, and answers the request, as attempt does. A browser that
// navigates without a valid cookie is redirected to the issuer instead, unless its user is known to be in no
// permitted group or the issuer cannot be asked.
func (g *guard) session(w http.ResponseWriter, r *http.Request) {
	if g.login == nil {
		g.answer(w, r, errUnknown, visit{})
		return
	}
	var who string
	cookie, err := r.Cookie(sessionCookie)
	if err == nil {
		who, err = g.try(r, cookie.Value, g.login.remembers)
	}
	navigates := r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html")
	if err != nil && navigates && !errors.Is(err, errNotInGroup) && !errors.Is(err, errIssuer) {
		g.login.begin(w, r)
		return
	}
	g.answer(w, r, err, visit{who, func() error { _, err := g.login.remembers(r); return err }})
}

// answer serves the page if err is nil. Otherwise it answers with the error's status.
func (g *guard) answer(w http.ResponseWriter, r *http.Request, err error, v visit) {
	wait, many := errors.AsType[tooMany](err)
	switch {
	case err == nil:
		g.admit(w, r, v)
	case many:
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(time.Duration(wait).Seconds()))))
		http.Error(w, err.Error(), http.StatusTooManyRequests)
	case errors.Is(err, errNotInGroup):
		http.Error(w, err.Error(), http.StatusForbidden)
	case errors.Is(err, errIssuer):
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	default:
		if g.PasswordFile != "" {
			w.Header().Add("WWW-Authenticate", `Basic realm="hap-worker", charset="UTF-8"`)
		}
		if g.TokenFile != "" || g.login != nil {
			w.Header().Add("WWW-Authenticate", `Bearer realm="hap-worker"`)
		}
		http.Error(w, "who are you? telemetry.page of the worker's configuration says how to log in", http.StatusUnauthorized)
	}
}

func localName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return loopbackHost(strings.Trim(host, "[]"))
}

// errUnknown is the error of wrong or missing credentials.
var errUnknown = errors.New("unknown")

// knows checks the request's password or token against the files as they are now, in constant time, or its ID
// token by the issuer's keys. who names the viewer. Wrong or missing credentials lead to an error.
func (g *guard) knows(r *http.Request) (who string, err error) {
	from := " at " + prefixOf(r.RemoteAddr).String()
	if token, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); bearer {
		if g.TokenFile != "" && g.matches(token, g.TokenFile) {
			return "token" + from, nil
		}
		if g.login != nil && strings.Count(token, ".") == 2 {
			return g.login.person(r.Context(), token)
		}
		return "", errUnknown
	}
	username, password, basic := r.BasicAuth()
	if !basic || g.PasswordFile == "" {
		return "", errUnknown
	}
	right := g.matches(password, g.PasswordFile)
	if same(username, g.Username) && right {
		return "password" + from, nil
	}
	return "", errUnknown
}

func (g *guard) matches(given, file string) bool {
	content, err := os.ReadFile(file)
	if err != nil {
		g.warn("no user can log in to the operations page: " + err.Error())
		return false
	}
	secret := strings.TrimSpace(string(content))
	if secret == "" {
		g.warn("no user can log in to the operations page: " + file + " is empty")
		return false
	}
	return same(given, secret)
}

func same(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}
