package integration_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/integration/stack"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

// TestHapctlLandscape runs the stories in which hapctl is led to other places than those
// of one landscape, on a stack whose three variables are all that it is given:
//
//	records FILE      writes all that Redis has of accounts and runtimes to FILE
//	record FIELD TEXT changes a field of Redis's record of its landscape, '-' removes the record
//	junk              puts something else in the place of that record
//	ledger TEXT       writes what the ledger says of its landscape, '-' removes it
//	lose              empties Redis
func TestHapctlLandscape(t *testing.T) {
	t.Parallel()
	s := hapctlStack(t, stack.Options{Config: []byte(hapctlConfig), Accounts: accounts("aws", 2), Workers: 1})
	client := redisClient(t, s.Redis.URL())
	nc, err := nats.Connect(s.NATS.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.WithoutCancel(t.Context())
	const key = "hap:landscape"
	runHapctl(t, s, "testdata/hapctl-landscape", map[string]func(*testscript.TestScript, bool, []string){
		"stop": func(ts *testscript.TestScript, _ bool, _ []string) { ts.Check(s.Workers[0].Stop()) },
		"records": func(ts *testscript.TestScript, _ bool, args []string) {
			var lines []string
			for _, hash := range []string{"hap:{aws}:b", "hap:{aws}:r", "hap:{aws}:meta", key} {
				for field, value := range client.HGetAll(ctx, hash).Val() {
					lines = append(lines, fmt.Sprintln(hash, field, value))
				}
			}
			slices.Sort(lines)
			ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(strings.Join(lines, "")), 0o600))
		},
		"record": func(ts *testscript.TestScript, _ bool, args []string) {
			if args[0] == "-" {
				ts.Check(client.Del(ctx, key).Err())
				return
			}
			ts.Check(client.HSet(ctx, key, args[0], args[1]).Err())
		},
		"junk": func(ts *testscript.TestScript, _ bool, _ []string) {
			ts.Check(client.Del(ctx, key).Err())
			ts.Check(client.Set(ctx, key, "x\x1b[2J", 0).Err())
		},
		"lose": func(ts *testscript.TestScript, _ bool, _ []string) { ts.Check(client.FlushAll(ctx).Err()) },
		"ledger": func(ts *testscript.TestScript, _ bool, args []string) {
			stream, err := js.Stream(ctx, events.StreamReplies)
			ts.Check(err)
			config := stream.CachedInfo().Config
			delete(config.Metadata, storage.MetadataLandscape)
			if args[0] != "-" {
				config.Metadata[storage.MetadataLandscape] = engine.Landscape{Namespace: args[0], Resource: "credentialsbindings"}.Text()
			}
			_, err = js.UpdateStream(ctx, config)
			ts.Check(err)
		},
	})
}
