package integration_test

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/conf"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// TestNATSLimits: each limit of accounts.conf is in force, from files and from an
// operator's claims, and a role that has come to its limit does not keep out another.
func TestNATSLimits(t *testing.T) {
	t.Parallel()
	fewer := func(text string) string { return edited(t, text, "max_consumers: 4096", "max_consumers: 40") } // to be quick
	limits := accountLimits(t, fewer(deployed(t, "accounts.conf")))
	for _, way := range []layout{roleAccounts, byOperator} {
		t.Run(string(way), func(t *testing.T) {
			t.Parallel()
			g := &guarded{t: t, layout: way}
			g.serve(fewer, nil)
			for n, role := range roles {
				g.limited(role, roles[(n+1)%len(roles)], limits["HAP_"+role])
			}
			streams := 0
			for account, most := range limits {
				if most["max_streams"] > 0 {
					streams++
					g.bounded(account, most)
				}
			}
			if streams != 5 {
				t.Errorf("%d accounts have streams", streams)
			}
		})
	}
}

// TestNATSLimitsFitTheServer: what the accounts reserve together the server has.
func TestNATSLimitsFitTheServer(t *testing.T) {
	t.Parallel()
	file, memory, server := int64(0), int64(0), numbers(t, deployed(t, "nats-server.conf"))
	for _, of := range accountLimits(t, deployed(t, "accounts.conf")) {
		file, memory = file+of["max_file"], memory+of["max_mem"]
	}
	if file > server["max_file_store"] || memory > server["max_memory_store"] {
		t.Errorf("the accounts reserve %d bytes of files, %d of memory, the server has %v", file, memory, server)
	}
}

// accountLimits are the numbers of a configuration of accounts, by account and name.
func accountLimits(t *testing.T, text string) map[string]map[string]int64 {
	t.Helper()
	found := map[string]map[string]int64{}
	for _, block := range strings.Split(text, "\n  HAP_")[1:] {
		name, _, _ := strings.Cut(block, " ")
		of := numbers(t, block)
		if len(of) < 3 {
			t.Errorf("HAP_%s has the limits %v only", name, of)
		}
		found["HAP_"+name] = of
	}
	return found
}

// numbers are the limits in a configuration, by name, as the server reads them: 1K is 1000.
func numbers(t *testing.T, text string) map[string]int64 {
	t.Helper()
	read, err := conf.Parse(strings.Join(regexp.MustCompile(`max_\w+: \w+`).FindAllString(text, -1), "\n"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int64{}
	for name, n := range read {
		found[name] = n.(int64)
	}
	return found
}

// limited tries a role's limits of connections, subscriptions and bytes.
func (g *guarded) limited(role, other string, most map[string]int64) {
	g.t.Helper()
	var open []*nats.Conn
	defer func() {
		for _, nc := range open {
			nc.Close()
		}
	}()
	for n := range most["max_connections"] {
		nc, err := g.dial(role)
		if err != nil {
			g.t.Errorf("%s has no connection %d: %v", role, n+1, err)
			return
		}
		open = append(open, nc)
	}
	if nc, err := g.dial(role); err == nil {
		nc.Close()
		g.t.Errorf("%s has a connection more than %d", role, most["max_connections"])
	}
	if nc, err := g.dial(other); err != nil {
		g.t.Errorf("%s is kept out by the connections of %s: %v", other, role, err)
	} else {
		nc.Close()
	}
	large := open[0]
	err := errors.Join(large.Publish("hap.v1.provision.ga-1", make([]byte, most["max_payload"]+1)), large.Flush(), large.LastError())
	if err == nil || !strings.Contains(strings.ToLower(err.Error()), "payload") {
		g.t.Errorf("%s sends more than %d bytes: %v", role, most["max_payload"], err)
	}
	prefix := "_INBOX." + strings.ToLower(role)
	many := open[len(open)-1]
	for n := range most["max_subscriptions"] + 1 {
		if _, err := many.Subscribe(fmt.Sprintf("%s.%d", prefix, n), func(*nats.Msg) {}); err != nil {
			g.t.Fatal(err)
		}
	}
	err = errors.Join(many.Flush(), many.LastError())
	if err == nil || !strings.Contains(strings.ToLower(err.Error()), "subscriptions") {
		g.t.Errorf("%s has more than %d subscriptions: %v", role, most["max_subscriptions"], err)
	}
}

// bounded tries the limits of an account of streams.
func (g *guarded) bounded(account string, most map[string]int64) {
	g.t.Helper()
	ctx := g.t.Context()
	js, err := jetstream.New(g.admin(account))
	if err != nil {
		g.t.Fatal(err)
	}
	stream := func(n int64, bytes int64, storage jetstream.StorageType) error {
		_, err := js.CreateStream(ctx, jetstream.StreamConfig{
			Name: fmt.Sprintf("S-%d", n), Subjects: []string{fmt.Sprintf("s.%d", n)}, MaxBytes: bytes, Storage: storage,
		})
		return err
	}
	for limit, storage := range map[string]jetstream.StorageType{"max_file": jetstream.FileStorage, "max_mem": jetstream.MemoryStorage} {
		if err := stream(0, most[limit]+1, storage); err == nil {
			g.t.Errorf("%s stores more than %d bytes (%s)", account, most[limit], limit)
		}
	}
	for n := range most["max_streams"] {
		if err := stream(n, 1<<20, jetstream.FileStorage); err != nil {
			g.t.Fatalf("%s has no stream %d: %v", account, n+1, err)
		}
	}
	if err := stream(most["max_streams"], 1<<20, jetstream.FileStorage); err == nil {
		g.t.Errorf("%s has more than %d streams", account, most["max_streams"])
	}
	consumer := func(n int64) error {
		_, err := js.CreateConsumer(ctx, "S-0", jetstream.ConsumerConfig{Durable: fmt.Sprintf("c-%d", n), AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true})
		return err
	}
	for n := range most["max_consumers"] {
		if err := consumer(n); err != nil {
			g.t.Fatalf("%s has no consumer %d: %v", account, n+1, err)
		}
	}
	if err := consumer(most["max_consumers"]); err == nil {
		g.t.Errorf("%s has more than %d consumers", account, most["max_consumers"])
	}
}
