package storage_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/ledger/ledgertest"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

var kyma = engine.Landscape{Cluster: "uid-1", Namespace: "garden-kyma", Resource: "credentialsbindings"}

// raw returns the ledger's configuration by field, byte for byte as the server sends it.
func raw(t *testing.T, js jetstream.JetStream) map[string]any {
	t.Helper()
	answer, err := js.Conn().Request("$JS.API.STREAM.INFO.HAP_REPLIES", nil, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	var info struct{ Config map[string]any }
	if err := json.Unmarshal(answer.Data, &info); err != nil {
		t.Fatal(err)
	}
	return info.Config
}

// The landscape is recorded in a ledger that others created long ago. The rest of its configuration
// does not change, and no worker reports a difference.
func TestLedgerRecordsItsLandscape(t *testing.T) {
	t.Parallel()
	js := ledgertest.Server(t).JetStream()
	ctx := within(t)
	streams, err := storage.Options{}.Streams()
	if err != nil {
		t.Fatal(err)
	}
	theirs := streams[1]
	theirs.Metadata = map[string]string{"team": "kyma"}
	theirs.AllowDirect, theirs.Description = true, "of an operator"
	if _, err := js.CreateStream(ctx, theirs); err != nil {
		t.Fatal(err)
	}
	ledger := storage.NewLedger(js, subjects(t), "/test")
	if l, found, err := ledger.Landscape(ctx); found || err != nil {
		t.Fatalf("a ledger without record has %+v, %v", l, err)
	}
	before := raw(t, js)
	if err := ledger.SetLandscape(ctx, kyma); err != nil {
		t.Fatal(err)
	}
	after := raw(t, js)
	metadata := func(config map[string]any) map[string]any {
		m, _ := config["metadata"].(map[string]any)
		return maps.Clone(m)
	}
	held := metadata(after)
	if held["team"] != "kyma" {
		t.Errorf("the metadata of others is %v", held)
	}
	delete(held, storage.MetadataLandscape)
	if want := metadata(before); !reflect.DeepEqual(held, want) {
		t.Errorf("the other metadata is %v, was %v", held, want)
	}
	delete(before, "metadata")
	delete(after, "metadata")
	if !reflect.DeepEqual(after, before) {
		t.Errorf("the stream was changed from\n%v to\n%v", before, after)
	}
	if l, found, err := ledger.Landscape(ctx); l != kyma || !found || err != nil {
		t.Errorf("%+v, %t, %v", l, found, err)
	}
	differences, err := storage.Setup(ctx, js, storage.Options{Manage: true})
	if err != nil || strings.Contains(strings.Join(differences, "\n"), "landscape") || len(differences) != 1 { // direct reads
		t.Errorf("%q, %v", differences, err)
	}
}

// Workers of one landscape that start together record it together.
func TestLandscapeIsSetTogether(t *testing.T) {
	t.Parallel()
	server, js := setup(t)
	ctx := within(t)
	var workers errgroup.Group
	for range 8 {
		ledger := storage.NewLedger(server.JetStream(), subjects(t), "/test")
		workers.Go(func() error { return ledger.SetLandscape(ctx, kyma) })
	}
	if err := workers.Wait(); err != nil {
		t.Error(err)
	}
	ledger := storage.NewLedger(js, subjects(t), "/test")
	if l, _, err := ledger.Landscape(ctx); l != kyma || err != nil {
		t.Errorf("%+v, %v", l, err)
	}
	moved := kyma
	moved.Cluster = "uid-2"
	if err := ledger.SetLandscape(ctx, moved); err != nil {
		t.Fatal(err)
	}
	if l, _, err := ledger.Landscape(ctx); l != moved || err != nil {
		t.Errorf("moved: %+v, %v", l, err)
	}
}

// A shadow's ledger is a separate one.
func TestShadowHasALandscapeOfItsOwn(t *testing.T) {
	t.Parallel()
	_, js := setup(t)
	ctx := within(t)
	if _, err := storage.Setup(ctx, js, storage.Options{Manage: true, Shadow: true}); err != nil {
		t.Fatal(err)
	}
	shadow := storage.NewLedger(js, subjects(t).Shadow(), "/test")
	if err := shadow.SetLandscape(ctx, kyma); err != nil {
		t.Fatal(err)
	}
	if l, found, err := storage.NewLedger(js, subjects(t), "/test").Landscape(ctx); found || err != nil {
		t.Errorf("the workers' ledger has %+v, %v", l, err)
	}
}

func TestDamagedLandscape(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"junk": "garden-kyma", "huge": `{"namespace":"` + strings.Repeat("a", 1<<16) + `","resource":"secrets"}`, "empty": "",
	} {
		c := jetstream.StreamConfig{Metadata: map[string]string{storage.MetadataLandscape: text}}
		if l, found, err := storage.LandscapeOf(c); found || !errors.Is(err, engine.ErrNoLandscape) || len(err.Error()) > 500 {
			t.Errorf("%s: %+v, %t, %v", name, l, found, err)
		}
	}
	newer := jetstream.StreamConfig{Metadata: map[string]string{
		storage.MetadataLandscape: `{"namespace":"garden-kyma","resource":"credentialsbindings","cluster":"uid-1","version":7}`,
	}}
	if l, found, err := storage.LandscapeOf(newer); l != kyma || !found || err != nil {
		t.Errorf("of a newer version: %+v, %v", l, err)
	}
}

// A worker without the right to change the stream gets an error, and does not hang.
func TestLandscapeWithoutTheRight(t *testing.T) {
	t.Parallel()
	s := ledgertest.Server(t, func(o *server.Options) {
		o.Users = []*server.User{
			{Username: "admin", Password: "admin"},
			{Username: "worker", Password: "worker", Permissions: &server.Permissions{
				Publish: &server.SubjectPermission{Deny: []string{"$JS.API.STREAM.UPDATE.>"}},
			}},
		}
	})
	admin, err := jetstream.New(s.Connect(nats.UserInfo("admin", "admin")))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := storage.Setup(within(t), admin, storage.Options{Manage: true}); err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(s.Connect(nats.UserInfo("worker", "worker"), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})),
		jetstream.WithDefaultTimeout(3*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	ledger := storage.NewLedger(js, subjects(t), "/test")
	if err := ledger.SetLandscape(within(t), kyma); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if l, found, err := ledger.Landscape(within(t)); found || err != nil {
		t.Errorf("%+v, %v", l, err)
	}
}
