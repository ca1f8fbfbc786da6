package integration_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hap-worker/hap-worker/integration/stack"
)

// primaries are a Redis Cluster of three, each with a third of the slots, that knows
// the users of deploy/redis and lets its default user do everything.
type primaries struct {
	addresses []string
	admins    []*redis.Client
	password  string // file with the worker's
}

func threePrimaries(t *testing.T) *primaries {
	t.Helper()
	p := &primaries{password: filepath.Join(t.TempDir(), "password")}
	if err := os.WriteFile(p.password, []byte("geheim"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	const slots = 16384
	for n := range 3 {
		port, bus := freePort(t), freePort(t)
		redisProcess(t, port, "--port", fmt.Sprint(port), "--cluster-enabled", "yes", "--cluster-port", fmt.Sprint(bus))
		address := net.JoinHostPort("127.0.0.1", fmt.Sprint(port))
		admin := redis.NewClient(&redis.Options{Addr: address, DisableIdentity: true})
		t.Cleanup(func() { _ = admin.Close() })
		p.addresses, p.admins = append(p.addresses, address), append(p.admins, admin)
		must(admin.ClusterAddSlotsRange(ctx, n*slots/3, (n+1)*slots/3-1).Err())
		if n > 0 {
			must(p.admins[0].Do(ctx, "CLUSTER", "MEET", "127.0.0.1", port, bus).Err())
		}
		p.addUsers(ctx, t, admin)
	}
	for _, admin := range p.admins {
		must(until(ctx, func() error {
			info := admin.ClusterInfo(ctx).Val()
			if !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, "cluster_known_nodes:3") {
				return errors.New(info)
			}
			return nil
		}))
	}
	return p
}

// addUsers makes the users of deploy/redis/users.acl, with what docs/redis.md
// says that a cluster needs besides.
func (p *primaries) addUsers(ctx context.Context, t *testing.T, admin *redis.Client) {
	t.Helper()
	root, err := stack.Root()
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(root, "deploy", "redis", "users.acl"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(content)) {
		words := strings.Fields(line)
		if words[1] != "hap-worker" {
			continue
		}
		rules := []any{"ACL", "SETUSER", words[1], "reset", ">geheim"}
		for _, word := range words[2:] {
			if word[0] != '#' {
				rules = append(rules, word)
			}
		}
		rules = append(rules, "+cluster|slots", "+command", "+asking")
		if err := admin.Do(ctx, rules...).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// nodeOf is the node that has a key.
func (p *primaries) nodeOf(t *testing.T, key string) string {
	t.Helper()
	for i, admin := range p.admins {
		if n, err := admin.Exists(t.Context(), key).Result(); err == nil && n == 1 {
			return p.addresses[i]
		}
	}
	t.Fatalf("no node has %s", key)
	return ""
}

// refused returns what any node has refused to any user.
func (p *primaries) refused(t *testing.T) (all []string) {
	t.Helper()
	for _, admin := range p.admins {
		entries, err := admin.ACLLog(t.Context(), 100).Result()
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			all = append(all, fmt.Sprintf("%s is refused %s %s", e.Username, e.Reason, e.Object))
		}
	}
	return all
}
