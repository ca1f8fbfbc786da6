package config

import (
	"net/url"
	"strings"
)

// callback is the path to which an issuer redirects browsers after a login; package access serves it.
const callback = "/oidc/callback"

// another says why a page with TLS does not share telemetry.listen.
const another = "probes and metrics have no TLS, so the page needs another address, such as :8443"

// check validates the section. listen is telemetry.listen. Page.Listen must be another address, unless both
// have port 0.
func (p *Page) check(wrong *faults, listen string) {
	const path = "telemetry.page"
	switch {
	case p.Username != "" && p.PasswordFile == "":
		wrong.add(path+".passwordFile", "is required with username")
	case p.Username == "" && p.PasswordFile != "":
		wrong.add(path+".username", "is required with passwordFile")
	case strings.Contains(p.Username, ":"):
		wrong.add(path+".username", "must not contain a colon: in HTTP basic authentication, a colon ends the name")
	}
	noContents(wrong, path+".passwordFile", p.PasswordFile)
	noContents(wrong, path+".tokenFile", p.TokenFile)
	if p.Listen != "" {
		if fault := hostPort(p.Listen); fault != "" {
			wrong.add(path+".listen", "%q %s", p.Listen, fault)
		} else if p.Listen == listen && !strings.HasSuffix(listen, ":0") {
			todo := "omit it, and the page is served there"
			if p.TLS != (ServerTLS{}) {
				todo = another
			}
			wrong.add(path+".listen", "is the same as telemetry.listen: %s", todo)
		}
	}
	p.TLS.check(wrong, path+".tls", p.Listen)
	p.OIDC.check(wrong, path+".oidc")
}

func (t *ServerTLS) check(wrong *faults, path, listen string) {
	switch {
	case (t.Cert == "") != (t.Key == ""):
		wrong.add(path, "needs cert and key together, or neither")
	case t.Cert != "" && listen == "":
		wrong.add("telemetry.page.listen", "is required with tls: %s", another)
	}
	noContents(wrong, path+".cert", t.Cert)
	noContents(wrong, path+".key", t.Key)
}

func (o *OIDC) check(wrong *faults, path string) {
	if o.Issuer == "" {
		if o.ClientID != "" || o.RedirectURL != "" || len(o.Groups) > 0 || o.ClientSecretFile != "" || o.CA != "" {
			wrong.add(path+".issuer", "is missing")
		}
		return
	}
	overTLS(wrong, path+".issuer", o.Issuer)
	if o.ClientID == "" {
		wrong.add(path+".clientID", "is missing: set the page's client id at the issuer")
	}
	if u := overTLS(wrong, path+".redirectURL", o.RedirectURL); u != nil && u.Path != callback {
		wrong.add(path+".redirectURL", "must be the page's address for browsers, followed by %s", callback)
	}
	if len(o.Groups) == 0 {
		wrong.add(path+".groups", "is missing: name the groups whose members may open the page; * admits every user of the issuer")
	}
	noContents(wrong, path+".clientSecretFile", o.ClientSecretFile)
	noContents(wrong, path+".ca", o.CA)
}

// overTLS requires https, except for loopback addresses. It returns the parsed URL, or nil after a fault.
func overTLS(wrong *faults, path, text string) *url.URL {
	u := checkURL(wrong, path, text, "https", "http")
	if u != nil && u.Scheme == "http" && !loopback(u.Hostname()) {
		wrong.add(path, "must begin with https://: over http, others could read the login")
		return nil
	}
	return u
}
