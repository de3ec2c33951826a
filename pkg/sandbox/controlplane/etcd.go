package controlplane

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// maxSocketPath is what a unix socket address holds on Linux, less the ending
// zero byte.
const maxSocketPath = 107

// store is the embedded etcd. It listens on a unix socket only: a port would
// give every user of the machine the cluster's secrets.
type store struct {
	etcd *embed.Etcd
	url  string
}

func startStore(ctx context.Context, dir string, log io.Writer) (*store, error) {
	data := filepath.Join(dir, "etcd")
	if err := os.MkdirAll(data, 0o700); err != nil {
		return nil, err
	}
	socket := filepath.Join(dir, "etcd.sock")
	if len(socket) > maxSocketPath {
		return nil, fmt.Errorf("%s: %d bytes, a unix socket path holds %d: choose a shorter state directory", socket, len(socket), maxSocketPath)
	}
	cfg := embed.NewConfig()
	cfg.Name = "default"
	cfg.Dir = data
	// Nothing in a sandbox outlives the process, so nothing is synced.
	cfg.UnsafeNoFsync = true
	cfg.ListenPeerUrls = nil
	// A single member never dials itself; the name is only compared.
	peer := url.URL{Scheme: "http", Host: "127.0.0.1:2380"}
	cfg.AdvertisePeerUrls = []url.URL{peer}
	cfg.InitialCluster = cfg.Name + "=" + peer.String()
	client := url.URL{Scheme: "unix", Path: socket}
	cfg.ListenClientUrls = []url.URL{client}
	cfg.AdvertiseClientUrls = []url.URL{client}
	cfg.QuotaBackendBytes = 4 << 30
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.New(zapcore.NewCore(
		zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(log), zap.WarnLevel)))
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, fmt.Errorf("start etcd in %s: %w", data, err)
	}
	s := &store{etcd: e, url: client.String()}
	select {
	case <-e.Server.ReadyNotify():
		return s, nil
	case err := <-e.Err():
		s.stop()
		return nil, fmt.Errorf("etcd: %w", err)
	case <-ctx.Done():
		s.stop()
		return nil, fmt.Errorf("etcd did not become ready: %w", ctx.Err())
	}
}

func (s *store) stop() { s.etcd.Close() }
