package integration_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/hap-worker/hap-worker/cmd/daemon"
)

var pageListens = regexp.MustCompile(`"msg":"listening for the operations page","addr":"([^"]+)","tls":true`)

// TestPageOfItsOwn: with a separate address the page speaks TLS there, and neither
// address has what the other one is for.
func TestPageOfItsOwn(t *testing.T) {
	t.Parallel()
	l := newLandscape(t, oneAccountRules, accounts("aws", 1))
	a := newAuthority(t)
	served := a.sign("page")
	w := l.work(daemon.Options{Env: []string{
		"HAP_TELEMETRY_PAGE_LISTEN=127.0.0.1:0", "HAP_TELEMETRY_PAGE_TLS_CERT=" + served.cert, "HAP_TELEMETRY_PAGE_TLS_KEY=" + served.key,
	}})
	at := pageListens.FindStringSubmatch(w.log.String())
	if at == nil {
		t.Fatal("the page does not listen")
	}
	pool, authority := x509.NewCertPool(), must(os.ReadFile(a.CA))
	pool.AppendCertsFromPEM(authority)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	defer client.CloseIdleConnections()
	for path, want := range map[string]string{"/": "Pools", "/pools/aws": "aws", "/metrics": "There is nothing here", "/readyz": "There is nothing here"} {
		answer, err := client.Get("https://" + at[1] + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		if err := errors.Join(err, answer.Body.Close()); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(body), want) || answer.Header.Get("Content-Security-Policy") == "" {
			t.Errorf("%s: %s, without %q", path, answer.Status, want)
		}
	}
	for path, want := range map[string]int{"/": http.StatusNotFound, "/pools/aws": http.StatusNotFound, "/metrics": http.StatusOK, "/healthz": http.StatusOK} {
		if code, _, err := fetch(w.url + path); err != nil || code != want {
			t.Errorf("%s beside the page: %d, %v, want %d", path, code, err, want)
		}
	}
}
