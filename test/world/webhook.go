package world

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/webhook"
	"sluice.dev/sluice/test/controlplane"
)

// ServeWebhook installs the admission webhook as shipped, except for its address, in a cluster with Sluice's namespace.
// It serves the webhook with the rights of a watcher until the caller calls stop or the test ends. The API server calls
// the webhook some time after that.
func ServeWebhook(t testing.TB, c *controlplane.Cluster) (stop func()) {
	t.Helper()
	config := rest.CopyConfig(c.Config)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + api.DefaultNamespace + ":" + api.DefaultWatcher,
		Groups:   []string{"system:serviceaccounts", "system:authenticated"},
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	list, err := webhook.NewRolloutLister(config)
	if err != nil {
		t.Fatal(err)
	}
	server, err := webhook.Listen("127.0.0.1:0", webhook.NewHandler(api.DefaultInstallation(), log, nil, list), webhook.NewAuthority(client, api.DefaultInstallation(), log, "127.0.0.1"), log)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(Root(), "deploy/webhook")
	text, err := os.ReadFile(filepath.Join(dir, "webhook.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	configuration := string(text)
	for _, path := range []string{webhook.Path, webhook.PathRollout} {
		service := fmt.Sprintf("service: {namespace: sluice-system, name: sluice-webhook, path: %s, port: 443}", path)
		if !strings.Contains(configuration, service) {
			t.Fatalf("the webhook is not configured by %q", service)
		}
		configuration = strings.Replace(configuration, service, fmt.Sprintf("url: https://%s%s", server.Address(), path), 1)
	}
	// The shipped five seconds are too short on a machine that runs all tests at once.
	configuration = strings.Replace(configuration, "timeoutSeconds: 5", "timeoutSeconds: 30", -1)
	if _, err := c.KubectlStdin(t.Context(), configuration, "apply", "-f", filepath.Join(dir, "authority.yaml"), "-f", "-"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := server.Run(ctx); err != nil {
			t.Errorf("serve the webhook: %v", err)
		}
	})
	stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	t.Cleanup(stop)
	return stop
}
