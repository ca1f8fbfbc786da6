package access

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestStands ends each kind of login while its request is being answered. A session has the groups of its
// token: a removed group is noticed only when the token expires.
func TestStands(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	i.claims = map[string]any{"sub": "ada"}
	const replaced, gone, later = "replaced", "gone", "an hour later"
	for name, c := range map[string]struct{ header, value, who, ends string }{
		"password":            {"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte("ops:old")), "password at 192.0.2.1/32", replaced},
		"token":               {"Authorization", "Bearer old", "token at 192.0.2.1/32", replaced},
		"file of a token":     {"Authorization", "Bearer old", "token at 192.0.2.1/32", gone},
		"session":             {"Cookie", sessionCookie + "=" + i.sign(nil), "person ada", later},
		"token of the issuer": {"Authorization", "Bearer " + i.sign(nil), "person ada", later},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "secret")
			keep := func(secret string) {
				if err := os.WriteFile(file, []byte(secret), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			keep("old")
			p, _ := i.page(func(r *Rules) { r.Username, r.PasswordFile, r.TokenFile = "ops", file, file })
			get(t, p, "/", c.header, c.value)
			if p.seen.Load() == nil {
				t.Fatal("not let in")
			}
			if got := Viewer(p.seen.Load()); got != c.who {
				t.Errorf("the viewer is %q, want %q", got, c.who)
			}
			if !Stands(p.seen.Load()) {
				t.Error("the login is over at once")
			}
			switch c.ends {
			case replaced:
				keep("new")
			case gone:
				_ = os.Remove(file)
			case later:
				p.now = func() time.Time { return noon.Add(time.Hour + time.Second) }
			}
			if Stands(p.seen.Load()) {
				t.Error("the login still stands")
			}
		})
	}
}

// TestViewersOfAnOpenPage are told apart by their address, and their visits end with them only.
func TestViewersOfAnOpenPage(t *testing.T) {
	t.Parallel()
	p, _ := serve(t, Rules{Listen: "127.0.0.1:8080"})
	get(t, p, "/")
	if got := Viewer(p.seen.Load()); got != "192.0.2.1/32" || !Stands(p.seen.Load()) {
		t.Errorf("the viewer is %q, stands: %t", got, Stands(p.seen.Load()))
	}
}
