package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// quota is the size in bytes at which etcd refuses writes. It is above the default, 2 GiB, for benchmarks that
// write for hours.
const quota = 8 << 30

// etcd is the embedded store.
type etcd struct {
	server   *embed.Etcd
	endpoint string
}

// startEtcd starts a single-member etcd, and waits until it is ready, at most c.startup.
func startEtcd(ctx context.Context, c *config) (*etcd, error) {
	cfg := embed.NewConfig()
	cfg.Dir = filepath.Join(c.data, "etcd")
	cfg.QuotaBackendBytes = quota
	cfg.UnsafeNoFsync = !c.fsync
	cfg.TickMs, cfg.ElectionMs = 10, 100 // no peers, so elections may be fast
	cfg.ListenClientUrls = []url.URL{{Scheme: "http", Host: c.etcdListen}}
	cfg.ListenPeerUrls = []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	logger, err := etcdLogger()
	if err != nil {
		return nil, err
	}
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(logger)
	host, _, err := net.SplitHostPort(c.etcdListen)
	if err != nil {
		return nil, fmt.Errorf("--etcd-listen: %w", err)
	}
	server, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, fmt.Errorf("start etcd: %w", err)
	}
	_, port, err := net.SplitHostPort(server.Clients[0].Addr().String())
	if err != nil {
		server.Close()
		return nil, fmt.Errorf("start etcd: %w", err)
	}
	e := &etcd{server: server, endpoint: "http://" + net.JoinHostPort(reachable(host), port)}
	ready, cancel := context.WithTimeout(ctx, c.startup)
	defer cancel()
	select {
	case <-server.Server.ReadyNotify():
		return e, nil
	case err := <-server.Err():
		e.stop()
		return nil, fmt.Errorf("start etcd: %w", err)
	case <-server.Server.StopNotify():
		e.stop()
		return nil, errors.New("start etcd: it stopped before it was ready")
	case <-ready.Done():
		e.stop()
		return nil, fmt.Errorf("start etcd: not ready: %w", ready.Err())
	}
}

func (e *etcd) stop() { e.server.Close() }

// etcdLogger logs errors to the current os.Stderr. It omits warnings: most of etcd's are about slow disks, which
// are normal on test machines.
func etcdLogger() (*zap.Logger, error) {
	cfg := zap.NewProductionConfig()
	cfg.Level = zap.NewAtomicLevelAt(zapcore.ErrorLevel)
	encoder := zapcore.NewConsoleEncoder(cfg.EncoderConfig)
	return zap.New(zapcore.NewCore(encoder, zapcore.AddSync(stderr{}), cfg.Level)), nil
}
