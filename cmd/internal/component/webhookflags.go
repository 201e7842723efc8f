package component

// This file has the flags of the admission webhook, and the watcher that serves it. Without --webhook-addr the watcher does not listen.

import (
	"context"
	"fmt"
	"net"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"

	"sluice.dev/sluice/pkg/health"
	"sluice.dev/sluice/pkg/webhook"
)

// WebhookFlags configure the server of the webhook.
type WebhookFlags struct{ Address, CertDir string }

// AddFlags registers the flags.
func (f *WebhookFlags) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&f.Address, "webhook-addr", "",
		"where to serve the admission webhook that holds workloads, such as :9443, for clusters older than Kubernetes 1.36 (default: nowhere)")
	flags.StringVar(&f.CertDir, "webhook-cert-dir", "",
		"directory with tls.crt and tls.key of --webhook-addr, read again when they change (default: an authority of its own in the Secret sluice-webhook of the installation)")
}

// WrapWatcher returns a watcher that also serves the webhook if the flags enable it.
func (f *WebhookFlags) WrapWatcher(watcher Part) Part {
	return func(ctx context.Context, env Env, checks map[string]health.Check) (func(context.Context) error, error) {
		watch, err := watcher(ctx, env, checks)
		if err != nil || f.Address == "" {
			return watch, err
		}
		certificates, err := f.certificateSource(env)
		if err != nil {
			return nil, err
		}
		list, err := webhook.NewRolloutLister(env.Config)
		if err != nil {
			return nil, err
		}
		server, err := webhook.Listen(f.Address, webhook.NewHandler(env.Installation, env.Logger, env.Registry, list), certificates, env.Logger)
		if err != nil {
			return nil, err
		}
		checks["webhook"] = server.Ready
		return func(ctx context.Context) error {
			group, ctx := errgroup.WithContext(ctx)
			group.Go(func() error { return watch(ctx) })
			group.Go(func() error { return server.Run(ctx) })
			return group.Wait()
		}, nil
	}
}

func (f *WebhookFlags) certificateSource(env Env) (webhook.Certificates, error) {
	if f.CertDir != "" {
		return webhook.NewFiles(f.CertDir, env.Logger)
	}
	client, err := kubernetes.NewForConfig(env.Config)
	if err != nil {
		return nil, fmt.Errorf("make client of webhook: %w", err)
	}
	var further []string
	if host, _, err := net.SplitHostPort(f.Address); err == nil && net.ParseIP(host) != nil {
		further = append(further, host)
	}
	return webhook.NewAuthority(client, env.Installation, env.Logger, further...), nil
}
