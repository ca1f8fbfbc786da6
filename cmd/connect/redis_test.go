package connect

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hap-worker/hap-worker/counters"
	"github.com/hap-worker/hap-worker/counters/counterstest"
	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/worker/config"
)

// TestRedisWithoutPassword: a connection that has not logged in, since the file of the password was empty or the
// server got a password later than the worker, is not kept. Otherwise every script got NOAUTH until a restart.
func TestRedisWithoutPassword(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, password string
		file           bool // the configuration names a file, which is empty
		want           string
	}{
		{"empty file", "secret", true, "redis.passwordFile: "},
		{"no file", "", false, "NOAUTH Authentication required. (redis.url, redis.passwordFile)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := counterstest.StartRedis(t)
			admin := server.Client(t).Conn()
			t.Cleanup(func() { _ = admin.Close() })
			require := func(password string) {
				t.Helper()
				if err := admin.ConfigSet(context.WithoutCancel(t.Context()), "requirepass", password).Err(); err != nil {
					t.Fatal(err)
				}
			}
			require("secret")
			of := config.Redis{URL: config.URLs{"unix://" + server.Socket}, Prefix: "hap"}
			if c.file {
				of.PasswordFile = filepath.Join(t.TempDir(), "password")
				if err := os.WriteFile(of.PasswordFile, []byte("\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			store, err := Redis(of)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = store.Close() })
			if err := ask(t, store); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("without a password: %v, want %q", err, c.want)
			}
			if c.file {
				if err := os.WriteFile(of.PasswordFile, []byte(c.password+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			} else {
				require(c.password)
			}
			if err := ask(t, store); err != nil {
				t.Errorf("with the password: %v", err)
			}
		})
	}
}

// ask asks by a script, over the lane, and in a single command. That no record is built is an
// answer.
func ask(t *testing.T, store *counters.Store) error {
	t.Helper()
	_, byScript := store.Recount(t.Context(), "aws", "a")
	if errors.Is(byScript, account.ErrNotBuilt) {
		byScript = nil
	}
	_, err := store.Time(t.Context())
	return errors.Join(byScript, err)
}
