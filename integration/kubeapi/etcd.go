package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// quota is etcd's largest size in bytes: a benchmark writes for hours without
// anybody compacting by hand.
const quota = 8 << 30

// etcd is the embedded store.
type etcd struct {
	server   *embed.Etcd
	endpoint string
}

// startEtcd starts a one-member etcd on free loopback ports and waits until it
// has elected itself.
func startEtcd(ctx context.Context, c *config) (*etcd, error) {
	cfg := embed.NewConfig()
	cfg.Dir = filepath.Join(c.data, "etcd")
	cfg.QuotaBackendBytes = quota
	cfg.UnsafeNoFsync = !c.fsync
	cfg.TickMs, cfg.ElectionMs = 10, 100 // alone: nobody to be patient with
	anyPort := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	cfg.ListenClientUrls = []url.URL{anyPort}
	cfg.ListenPeerUrls = []url.URL{anyPort}
	logger, err := etcdLogger()
	if err != nil {
		return nil, err
	}
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(logger)
	server, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, fmt.Errorf("start etcd: %w", err)
	}
	e := &etcd{server: server, endpoint: "http://" + server.Clients[0].Addr().String()}
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

// etcdLogger writes faults to where the log goes at present; etcd's warnings
// are about slow disks, which a test machine has by nature.
func etcdLogger() (*zap.Logger, error) {
	cfg := zap.NewProductionConfig()
	cfg.Level = zap.NewAtomicLevelAt(zapcore.ErrorLevel)
	encoder := zapcore.NewConsoleEncoder(cfg.EncoderConfig)
	return zap.New(zapcore.NewCore(encoder, zapcore.AddSync(stderr{}), cfg.Level)), nil
}
