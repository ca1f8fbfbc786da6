package containers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/testcontainers/testcontainers-go"
	"golang.org/x/sync/errgroup"
)

// nodes is the number of servers in a NATS cluster, and of primaries in a Redis Cluster.
const nodes = 3

// accounts is the number of NATS accounts, and so the most landscapes that a System can have.
const accounts = 24

// NATS is a cluster of three servers. Each landscape has a separate account, and so separate streams.
type NATS struct {
	docker     docker
	containers []*container
	ports      []int
}

func startNATS(ctx context.Context, d docker, image string, on *testcontainers.DockerNetwork) (*NATS, error) {
	n := &NATS{docker: d, containers: make([]*container, nodes)}
	var err error
	if n.ports, err = FreePorts(nodes); err != nil {
		return n, err
	}
	var group errgroup.Group
	for i := range nodes {
		group.Go(func() (err error) {
			n.containers[i], err = start(ctx, spec{
				image: image, command: []string{"--config", "/etc/nats.conf"},
				networks: map[string][]string{on.Name: {natsName(i)}},
				ports:    map[int]int{4222: n.ports[i]},
				files:    map[string][]byte{"/etc/nats.conf": natsConfig(i)},
			})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return n, err
	}
	return n, n.ready(ctx)
}

func natsName(i int) string { return fmt.Sprintf("nats-%d", i+1) }

// natsConfig returns the configuration of a server.
func natsConfig(i int) []byte {
	var routes, of strings.Builder
	for peer := range nodes {
		fmt.Fprintf(&routes, "%q, ", "nats://"+natsName(peer)+":6222")
	}
	for n := range accounts {
		name := accountName(n)
		fmt.Fprintf(&of, "  %s: {jetstream: enabled, users: [{user: %s, password: %s}]}\n", name, name, name)
	}
	return fmt.Appendf(nil, `
server_name: %s
listen: "0.0.0.0:4222"
# Room for what the streams reserve.
jetstream {store_dir: /data, max_memory_store: 1G, max_file_store: 256G}
cluster {name: hap, listen: "0.0.0.0:6222", routes: [%s]}
accounts {
  system: {users: [{user: system, password: system}]}
%s}
system_account: system
`, natsName(i), routes.String(), of.String())
}

// accountName is short, because it also names a Gardener Project.
func accountName(n int) string { return fmt.Sprintf("land-%02d", n) }

// urls returns the URLs of the servers for containers.
func (n *NATS) urls(account string) string {
	var urls []string
	for i := range nodes {
		urls = append(urls, fmt.Sprintf("nats://%s:%s@%s", account, account, net.JoinHostPort(natsName(i), "4222")))
	}
	return strings.Join(urls, ",")
}

// connect connects this process to the cluster.
func (n *NATS) connect(account string) (*nats.Conn, error) {
	var urls []string
	for _, port := range n.ports {
		urls = append(urls, fmt.Sprintf("nats://%s:%s@%s", account, account, net.JoinHostPort(loopback, strconv.Itoa(port))))
	}
	return nats.Connect(strings.Join(urls, ","), nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond),
		nats.RetryOnFailedConnect(true), nats.PingInterval(5*time.Second), nats.IgnoreDiscoveredServers())
}

// ready returns when a stream with three replicas can be created: JetStream has a leader, and all servers
// have joined.
func (n *NATS) ready(ctx context.Context) error {
	nc, err := n.connect(accountName(0))
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	return n.containers[0].await(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		_, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: "ready", Storage: jetstream.MemoryStorage, Replicas: nodes})
		if err != nil {
			return err
		}
		return js.DeleteStream(ctx, "ready")
	})
}

// leader returns the index of the server that leads a stream.
func leader(ctx context.Context, js jetstream.JetStream, stream string) (int, error) {
	s, err := js.Stream(ctx, stream)
	if err != nil {
		return 0, err
	}
	info := s.CachedInfo()
	if info.Cluster == nil || info.Cluster.Leader == "" {
		return 0, fmt.Errorf("stream %s has no leader", stream)
	}
	for i := range nodes {
		if info.Cluster.Leader == natsName(i) {
			return i, nil
		}
	}
	return 0, fmt.Errorf("%s leads stream %s", info.Cluster.Leader, stream)
}

// current returns nil if the stream has three current replicas, and otherwise an error that says why not.
func current(ctx context.Context, js jetstream.JetStream, stream string) error {
	s, err := js.Stream(ctx, stream)
	if err != nil {
		return err
	}
	cluster := s.CachedInfo().Cluster
	if cluster == nil || cluster.Leader == "" || len(cluster.Replicas) != nodes-1 {
		return fmt.Errorf("stream %s: %+v", stream, cluster)
	}
	for _, replica := range cluster.Replicas {
		if replica.Offline || !replica.Current {
			return fmt.Errorf("stream %s: %s lags, offline %t", stream, replica.Name, replica.Offline)
		}
	}
	return nil
}

// Kill ends a server at once, and keeps its files.
func (n *NATS) Kill(ctx context.Context, node int) error {
	return n.containers[node].kill(ctx, n.docker)
}

// Start starts a killed server.
func (n *NATS) Start(ctx context.Context, node int) error { return n.containers[node].Start(ctx) }

func (n *NATS) remove(ctx context.Context) error {
	var errs []error
	for _, c := range n.containers {
		errs = append(errs, c.remove(ctx))
	}
	return errors.Join(errs...)
}
