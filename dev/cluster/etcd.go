package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
)

// startEtcd runs etcd in this process, with empty data below dir, and returns it with its client URL. It syncs nothing to disk, because a cluster lives only as
// long as its process.
func startEtcd(ctx context.Context, dir string) (*embed.Etcd, string, error) {
	data := filepath.Join(dir, "etcd")
	if err := os.RemoveAll(data); err != nil {
		return nil, "", fmt.Errorf("remove the data of the cluster before: %w", err)
	}
	anyPort := []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	cfg := embed.NewConfig()
	cfg.Dir = data
	cfg.UnsafeNoFsync = true
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = anyPort, anyPort
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = anyPort, anyPort
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	// A member without peers waits for one election timeout before it serves, and acts in each tick.
	cfg.TickMs, cfg.ElectionMs = 40, 200
	cfg.QuotaBackendBytes = 8 << 30
	cfg.MaxRequestBytes = 4 << 20
	cfg.EnableGRPCGateway = false                 // it would dial the address with port 0
	cfg.WarningUnaryRequestDuration = time.Second // without a value it warns of every request
	cfg.LogLevel = "warn"
	cfg.LogOutputs = []string{filepath.Join(dir, "etcd.log")}
	etcd, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, "", fmt.Errorf("start etcd: %w", err)
	}
	select {
	case <-etcd.Server.ReadyNotify():
		return etcd, "http://" + etcd.Clients[0].Addr().String(), nil
	case err := <-etcd.Err():
		return nil, "", fmt.Errorf("run etcd: %w", err)
	case <-ctx.Done():
		etcd.Close()
		return nil, "", ctx.Err()
	}
}
