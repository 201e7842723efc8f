package component

// This file has the flags of the approval receiver, and the watcher that serves it. Without --approval-listen the watcher does not listen.

import (
	"context"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"sluice.dev/sluice/pkg/health"
	"sluice.dev/sluice/pkg/kube"
	"sluice.dev/sluice/pkg/receiver"
)

// Audience is the default audience of tokens for the receiver. A separate audience keeps these tokens useless elsewhere, and tokens for other services useless
// here.
const Audience = "sluice"

// ReceiverFlags configure the receiver of approvals over HTTP.
type ReceiverFlags struct {
	Listen, CertFile, KeyFile string
	Plain                     bool
	Audiences                 []string
}

// AddFlags registers the flags.
func (f *ReceiverFlags) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&f.Listen, "approval-listen", "", "where to take approvals as CloudEvents over HTTP, such as :8443 (default: nowhere)")
	flags.StringVar(&f.CertFile, "approval-tls-cert", "", "file with the certificate of --approval-listen; it is read again when it changes")
	flags.StringVar(&f.KeyFile, "approval-tls-key", "", "file with the key of --approval-tls-cert")
	flags.BoolVar(&f.Plain, "approval-plain-http", false, "serve --approval-listen without TLS beyond this machine, for behind a proxy that has the certificate")
	flags.StringSliceVar(&f.Audiences, "approval-audience", []string{Audience}, "audiences that a caller's token may be meant for; '' is the API server itself")
}

// NewWatcher is [NewWatcher] with a receiver, if the flags enable it.
func (f *ReceiverFlags) NewWatcher(ctx context.Context, env Env, checks map[string]health.Check) (func(context.Context) error, error) {
	watch, err := NewWatcher(ctx, env, checks)
	if err != nil || f.Listen == "" {
		return watch, err
	}
	gate, err := receiver.NewKubeAccess(env.Config, f.namedAudiences())
	if err != nil {
		return nil, err
	}
	fleets, err := kube.NewFleetReader(env.Config)
	if err != nil {
		return nil, err
	}
	server, err := receiver.Listen(receiver.ServerOptions{
		Address: f.Listen, CertFile: f.CertFile, KeyFile: f.KeyFile, Plain: f.Plain, Logger: env.Logger,
		Handler: receiver.New(receiver.Options{
			ClusterName: env.ClusterName, AccessControl: gate, Fleets: fleets, Queue: env.Queue, Logger: env.Logger, Registerer: env.Registry,
		}),
	})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		group, ctx := errgroup.WithContext(ctx)
		group.Go(func() error { return watch(ctx) })
		group.Go(func() error { return server.Run(ctx) })
		return group.Wait()
	}, nil
}

// namedAudiences returns the nonempty audiences.
func (f *ReceiverFlags) namedAudiences() []string {
	var list []string
	for _, a := range f.Audiences {
		if a != "" {
			list = append(list, a)
		}
	}
	return list
}
