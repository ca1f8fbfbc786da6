package storage_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/hap-worker/hap-worker/engine"
	"github.com/hap-worker/hap-worker/events"
	"github.com/hap-worker/hap-worker/ledger/ledgertest"
	"github.com/hap-worker/hap-worker/ledger/storage"
)

// cluster is three servers; streams have a replica on each.
func cluster(t *testing.T) []*ledgertest.NATS {
	t.Helper()
	var routes []string
	var ports []int
	for len(ports) < 3 {
		// Not ports that the kernel assigned for port 0: another server might take one before this
		// server listens.
		l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", 20000+rand.IntN(12000)))
		if err != nil {
			continue
		}
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
		routes = append(routes, "nats://"+l.Addr().String())
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	var servers []*ledgertest.NATS
	for i := range 3 {
		servers = append(servers, ledgertest.Server(t, func(o *server.Options) {
			o.ServerName = fmt.Sprint("n", i)
			o.Cluster = server.ClusterOpts{Name: "hap", Host: "127.0.0.1", Port: ports[i]}
			o.Routes = server.RoutesFromStr(strings.Join(routes, ","))
		}))
	}
	return servers
}

// On replicated streams the ledger behaves as on a single one, also while a server
// is away.
func TestLedgerReplicated(t *testing.T) {
	t.Parallel()
	servers := cluster(t)
	js, err := jetstream.New(servers[0].Connect(), jetstream.WithDefaultTimeout(2*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	ctx := within(t)
	var differences []string
	for err = errors.New("not yet"); err != nil && ctx.Err() == nil; { // until the cluster has a leader
		differences, err = storage.Setup(ctx, js, storage.Options{Manage: true, Replicas: 3})
	}
	if err != nil || len(differences) > 0 {
		t.Fatalf("%q, %v", differences, err)
	}
	ledger := storage.NewLedger(js, subjects(t), "/hap-worker")
	store(t, ledger, assigned("1"), 0)
	if _, err := ledger.Publish(ctx, replySubject(t, "1"), rejected("1", engine.CodeInternal), 0); !errors.Is(err, storage.ErrWrongLastSequence) {
		t.Errorf("a second final reply: %v", err)
	}
	servers[2].Stop()
	for err = errors.New("not yet"); err != nil && ctx.Err() == nil; { // until each stream has a leader again
		_, err = ledger.Publish(ctx, replySubject(t, "2"), assigned("2"), 0)
		if errors.Is(err, storage.ErrWrongLastSequence) { // stored by an attempt whose answer was lost
			break
		}
	}
	for _, id := range []string{"1", "2"} {
		last, found, err := ledger.Last(ctx, replySubject(t, id))
		if err != nil || !found || last.Reply.Status != events.StatusAssigned {
			t.Errorf("%s: %+v, %t, %v", id, last, found, err)
		}
	}
	// A reading needs a consumer, which the leader of the cluster creates. If the stopped server was
	// the leader, requests are lost until there is another.
	read := 0
	for err = errors.New("not yet"); err != nil && ctx.Err() == nil; {
		read = 0
		err = ledger.Each(ctx, func(events.Stored) error { read++; return nil })
	}
	if err != nil || read != 2 {
		t.Errorf("read %d replies, %v", read, err)
	}
}
