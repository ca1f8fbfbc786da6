package page

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
)

// Access says who may look.
type Access struct {
	// Listen is the address that the page is served on, host:port. On a loopback
	// address nobody is asked who they are unless a password or token is set.
	Listen string
	// Username and PasswordFile are for HTTP basic authentication. Defaults to none.
	Username, PasswordFile string
	// TokenFile has a bearer token. Defaults to none.
	TokenFile string
}

// Open says that the page is served to whoever asks.
func (a Access) Open() bool { return !a.asks() && Loopback(a.Listen) }

// Refuses is why the page is not served at all, "" where it is.
func (a Access) Refuses() string {
	if a.asks() || Loopback(a.Listen) {
		return ""
	}
	return fmt.Sprintf("the operations page is not served: it listens on %s, which others can reach, and asks nobody who they are. "+
		"Set telemetry.page.username with passwordFile, or telemetry.page.tokenFile; "+
		"or bind telemetry.listen to 127.0.0.1; or set telemetry.page.enabled to false", a.Listen)
}

func (a Access) asks() bool { return a.PasswordFile != "" || a.TokenFile != "" }

// Loopback reports whether only this machine can reach an address, host:port.
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

// guard lets those in who may look.
type guard struct {
	Access
	next http.Handler
	warn func(string)
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case g.Refuses() != "":
		http.Error(w, g.Refuses(), http.StatusForbidden)
	case g.Open() && !localName(r.Host):
		// A page of another site may have its name lead here.
		http.Error(w, "the operations page answers here by the names localhost and 127.0.0.1 only; "+
			"to give it another name, set a password or a token", http.StatusForbidden)
	case !g.Open() && !g.knows(r):
		if g.PasswordFile != "" {
			w.Header().Add("WWW-Authenticate", `Basic realm="hap-worker", charset="UTF-8"`)
		}
		if g.TokenFile != "" {
			w.Header().Add("WWW-Authenticate", `Bearer realm="hap-worker"`)
		}
		http.Error(w, "who are you? telemetry.page of the worker's configuration says how to log in", http.StatusUnauthorized)
	default:
		g.next.ServeHTTP(w, r)
	}
}

func localName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return loopbackHost(strings.Trim(host, "[]"))
}

// knows compares what the request brings with the files as they are now, in a time
// that tells nothing.
func (g *guard) knows(r *http.Request) bool {
	if token, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); bearer {
		return g.TokenFile != "" && g.matches(token, g.TokenFile)
	}
	username, password, basic := r.BasicAuth()
	if !basic || g.PasswordFile == "" {
		return false
	}
	right := g.matches(password, g.PasswordFile)
	return same(username, g.Username) && right
}

func (g *guard) matches(given, file string) bool {
	content, err := os.ReadFile(file) //nolint:gosec // the configuration names it
	if err != nil {
		g.warn("nobody can log in to the operations page: " + err.Error())
		return false
	}
	secret := strings.TrimSpace(string(content))
	if secret == "" {
		g.warn("nobody can log in to the operations page: " + file + " is empty")
		return false
	}
	return same(given, secret)
}

func same(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}
