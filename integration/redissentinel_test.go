package integration_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hap-worker/hap-worker/engine/account"
	"github.com/hap-worker/hap-worker/integration/stack"
	"github.com/hap-worker/hap-worker/worker/config"
)

// sentinelProcess starts a sentinel that watches the master "accounts" on a port, with
// further lines of its configuration.
func sentinelProcess(t *testing.T, port, master int, further ...string) {
	t.Helper()
	conf := filepath.Join(t.TempDir(), "sentinel.conf")
	lines := append([]string{
		fmt.Sprintf("port %d", port), "bind 127.0.0.1", fmt.Sprintf("dir %q", filepath.Dir(conf)),
		fmt.Sprintf("sentinel monitor accounts 127.0.0.1 %d 1", master),
		"sentinel down-after-milliseconds accounts 60000", "sentinel failover-timeout accounts 10000",
	}, further...)
	if err := os.WriteFile(conf, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	redisProcess(t, port, conf, "--sentinel")
}

// TestRedisSentinel follows a fail-over: what the new master has may be older than
// what was answered, so nothing of it counts until it is built anew.
func TestRedisSentinel(t *testing.T) {
	t.Parallel()
	master, replica, sentinel := freePort(t), freePort(t), freePort(t)
	redisProcess(t, master, "--port", fmt.Sprint(master))
	redisProcess(t, replica, "--port", fmt.Sprint(replica), "--replicaof", fmt.Sprintf("127.0.0.1 %d", master), "--repl-diskless-sync-delay", "0")
	sentinelProcess(t, sentinel, master)
	store, err := connected(t, config.Redis{URL: config.URLs{fmt.Sprintf("redis://127.0.0.1:%d", sentinel)}, SentinelMaster: "accounts", PoolSize: 2})
	if err != nil {
		t.Fatal(err)
	}
	if err := decides(t.Context(), store, account.FencedEpoch("before")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	watcher := redis.NewSentinelClient(&redis.Options{Addr: fmt.Sprintf("127.0.0.1:%d", sentinel), DisableIdentity: true})
	defer watcher.Close()
	if err := until(ctx, func() error { // it has to know of the replica first
		return watcher.Failover(ctx, "accounts").Err()
	}); err != nil {
		t.Fatal(err)
	}
	if err := until(ctx, func() error {
		status, err := store.Status(ctx, "aws")
		if err == nil && status.Built {
			err = errors.New("the old master still answers")
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := until(ctx, func() error {
		return decides(ctx, store, account.FencedEpoch(fmt.Sprintf("after%d", time.Now().UnixNano())))
	}); err != nil {
		t.Error(err)
	}
	address, err := watcher.GetMasterAddrByName(ctx, "accounts").Result()
	if err != nil || address[1] != fmt.Sprint(replica) {
		t.Errorf("the master is at %v, want port %d: %v", address, replica, err)
	}
}

// TestRedisSentinelPassword is a sentinel with its own users, before a master with
// another password. Whom it refuses reads which sentinels these are and what to look at;
// the file is read again, so that a password mended there needs no new start.
func TestRedisSentinelPassword(t *testing.T) {
	t.Parallel()
	const ofMaster, ofSentinel, ofUser, wrong = "geheim-master", "geheim-sentinel", "geheim-user", "geheim-wrong"
	master, sentinel := freePort(t), freePort(t)
	redisProcess(t, master, "--port", fmt.Sprint(master), "--requirepass", ofMaster)
	root, err := stack.Root()
	if err != nil {
		t.Fatal(err)
	}
	docs, err := os.ReadFile(filepath.Join(root, "docs", "redis.md"))
	if err != nil {
		t.Fatal(err)
	}
	user := "user hap-worker on >" + ofUser + " resetchannels &+switch-master &+replica-reconf-done -@all +ping +subscribe +sentinel|get-master-addr-by-name +sentinel|sentinels"
	if documented := strings.Replace(user, ofUser, "PASSWORD", 1); !strings.Contains(string(docs), documented) {
		t.Errorf("docs/redis.md has another user of a sentinel than %q", documented)
	}
	sentinelProcess(t, sentinel, master, "sentinel auth-pass accounts "+ofMaster, "requirepass "+ofSentinel, user)
	address := fmt.Sprintf("127.0.0.1:%d", sentinel)
	file := func(password string) string {
		name := filepath.Join(t.TempDir(), "password")
		if err := os.WriteFile(name, []byte(password+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	c := config.Redis{
		URL: config.URLs{"redis://" + address}, SentinelMaster: "accounts", PasswordFile: file(ofMaster),
		SentinelPasswordFile: file(ofSentinel),
		// More than any of them fails to connect: after so many failures the library
		// tries by itself, and notices its end a second late.
		PoolSize: 16,
	}
	const login = "check redis.sentinelUsername and redis.sentinelPasswordFile"
	for name, way := range map[string]struct {
		with   func(*config.Redis)
		reason []string // of the refusal; none where there is none
	}{
		"the password":           {func(*config.Redis) {}, nil},
		"a user":                 {func(c *config.Redis) { c.SentinelUsername, c.SentinelPasswordFile = "hap-worker", file(ofUser) }, nil},
		"another password":       {func(c *config.Redis) { c.SentinelPasswordFile = file(wrong) }, []string{address, "WRONGPASS", login}},
		"the master's password":  {func(c *config.Redis) { c.SentinelPasswordFile = c.PasswordFile }, []string{address, "WRONGPASS", login}},
		"an unknown user":        {func(c *config.Redis) { c.SentinelUsername = "nobody" }, []string{address, "WRONGPASS", login}},
		"no password":            {func(c *config.Redis) { c.SentinelPasswordFile = "" }, []string{address, "NOAUTH", login}},
		"a file that is missing": {func(c *config.Redis) { c.SentinelPasswordFile += "-none" }, []string{"redis.sentinelPasswordFile: open "}},
		"a master of other name": {func(c *config.Redis) { c.SentinelMaster = "bills" }, []string{address, `no master "bills"`, "check redis.sentinelMaster"}},
	} {
		t.Run(name, func(t *testing.T) {
			with := c
			with.Prefix = strings.ReplaceAll(name, " ", "-")
			way.with(&with)
			store, err := connected(t, with)
			if way.reason == nil {
				if err == nil {
					err = decides(t.Context(), store, "e1")
				}
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil {
				t.Fatal("it is let in")
			}
			for _, text := range way.reason {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("the error does not say %q: %v", text, err)
				}
			}
			if strings.Contains(err.Error(), "geheim") {
				t.Errorf("the error shows a password: %v", err)
			}
		})
	}
	mended := c
	mended.SentinelPasswordFile = file(wrong)
	store, err := connected(t, mended)
	if err == nil {
		t.Error("a wrong password is let in")
	}
	if err := os.WriteFile(mended.SentinelPasswordFile, []byte(ofSentinel), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Connect(t.Context()); err != nil {
		t.Errorf("after the file was mended: %v", err)
	}
}
