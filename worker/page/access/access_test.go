package access

import (
	"encoding/base64"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAccess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	password, token, empty := write("password", "open sesame\n"), write("token", "tk-1"), write("empty", "\n")
	basic := func(user, password string) string {
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
	}
	both := Rules{Listen: ":8080", Username: "ops", PasswordFile: password, TokenFile: token}
	for _, c := range []struct {
		name          string
		rules         Rules
		host          string
		authorization string
		code          int
		says, logs    string
	}{
		{"loopback asks nobody", Rules{Listen: "127.0.0.1:8080"}, "127.0.0.1:8080", "", 200, "", ""},
		{"loopback of IPv6", Rules{Listen: "[::1]:8080"}, "[::1]:8080", "", 200, "", ""},
		{"loopback by name", Rules{Listen: "localhost:0"}, "LOCALHOST:41", "", 200, "", ""},
		{"another site's name for loopback", Rules{Listen: "127.0.0.1:8080"}, "evil.example:8080", "", 403, "localhost or a loopback address only", ""},
		{"everywhere without a secret", Rules{Listen: ":8080"}, "localhost:8080", "", 403, "telemetry.page.username", "telemetry.page.tokenFile"},
		{"an address without a secret", Rules{Listen: "10.0.0.7:8080", Username: "ops"}, "10.0.0.7:8080", "", 403, "10.0.0.7:8080", "is not served"},
		{"who is it", both, "hap.example", "", 401, "who are you", ""},
		{"password", both, "hap.example", basic("ops", "open sesame"), 200, "", ""},
		{"wrong password", both, "hap.example", basic("ops", "open barley"), 401, "", ""},
		{"wrong user", both, "hap.example", basic("root", "open sesame"), 401, "", ""},
		{"token", both, "hap.example", "Bearer tk-1", 200, "", ""},
		{"wrong token", both, "hap.example", "Bearer tk-2", 401, "", ""},
		{"password as token", both, "hap.example", "Bearer open sesame", 401, "", ""},
		{"no such scheme", both, "hap.example", "Digest x", 401, "", ""},
		{"token where none is set", Rules{Listen: ":1", Username: "ops", PasswordFile: password}, "h", "Bearer ", 401, "", ""},
		{"password where none is set", Rules{Listen: ":1", TokenFile: token}, "h", basic("", ""), 401, "", ""},
		{"loopback with a token asks", Rules{Listen: "127.0.0.1:1", TokenFile: token}, "localhost", "", 401, "", ""},
		{"loopback with a token has any name", Rules{Listen: "127.0.0.1:1", TokenFile: token}, "hap.example", "Bearer tk-1", 200, "", ""},
		{"an empty file lets nobody in", Rules{Listen: ":1", TokenFile: empty}, "h", "Bearer ", 401, "", "is empty"},
		{"a file that is gone lets nobody in", Rules{Listen: ":1", TokenFile: dir + "/none"}, "h", "Bearer x", 401, "", "no such file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, log := serve(t, c.rules)
			w := get(t, hosted{p, c.host}, "/", "Authorization", c.authorization)
			if w.Code != c.code || !strings.Contains(w.Body.String(), c.says) {
				t.Errorf("%d, want %d with %q:\n%s", w.Code, c.code, c.says, w.Body)
			}
			if w.Code == http.StatusUnauthorized && len(w.Header().Values("WWW-Authenticate")) == 0 {
				t.Error("401 without a way to log in")
			}
			if w.Code != http.StatusOK && strings.Contains(w.Body.String(), "aws-1") {
				t.Error("a refusal shows accounts")
			}
			if said := log.String(); !strings.Contains(said, c.logs) || c.logs == "" && said != "" {
				t.Errorf("logged %q, want %q", said, c.logs)
			}
		})
	}
}

// hosted asks under a name.
type hosted struct {
	next http.Handler
	host string
}

func (h hosted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r.Host = h.host
	h.next.ServeHTTP(w, r)
}

// TestASecretIsReadAgain changes the token while the page is served.
func TestASecretIsReadAgain(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	p, _ := serve(t, Rules{Listen: ":8080", TokenFile: file})
	for _, token := range []string{"first", "second"} {
		if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
		if w := get(t, p, "/assets/page.css", "Authorization", "Bearer "+token); w.Code != http.StatusOK {
			t.Errorf("token %s: %d", token, w.Code)
		}
	}
}
