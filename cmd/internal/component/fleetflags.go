package component

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/nats-io/nkeys"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"

	luaconfiguration "sluice.dev/sluice/lua_configuration"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/executor"
	"sluice.dev/sluice/pkg/fleethub"
	"sluice.dev/sluice/pkg/fleetlink"
	"sluice.dev/sluice/pkg/fleetmessage"
	"sluice.dev/sluice/pkg/health"
	"sluice.dev/sluice/pkg/kube"
	"sluice.dev/sluice/pkg/queue"
	"sluice.dev/sluice/pkg/script"
)

// FleetFlags make the executors of a cluster the hub of a fleet, or connect them to one. A cluster can be both.
type FleetFlags struct {
	// HubKeyFiles have the private nkeys of the hub, the preferred one first.
	HubKeyFiles []string
	// Member is the name of this cluster's FleetMember at the hub.
	Member string
	// MemberKeyFile has the private nkey of this cluster.
	MemberKeyFile string
	// HubPublicKeysFile has the public nkeys of the hub, one on each line.
	HubPublicKeysFile string
	// HubUID is the only hub that counts; "" for each one that has a trusted key.
	HubUID string
	// NATS is the NATS of the hub.
	NATS NATS
}

// AddFlags registers the flags. The environment has their defaults, so that the shipped Deployment of executors is the same with and without a fleet.
func (f *FleetFlags) AddFlags(flags *pflag.FlagSet) {
	text := func(into *string, name, usage string) { textFlag(flags, into, name, "", usage) }
	variable, value := environmentDefault(flagHubKeyFile)
	flags.StringSliceVar(&f.HubKeyFiles, flagHubKeyFile, strings.FieldsFunc(value, func(r rune) bool { return r == ',' }),
		fmt.Sprintf("make this cluster the hub of a fleet: files with its private nkeys, the preferred one first ($%s)", variable))
	text(&f.Member, "fleet-member", "make this cluster a member of a fleet: the name of its FleetMember at the hub")
	text(&f.MemberKeyFile, "fleet-member-key-file", "file with the private nkey of this member")
	text(&f.HubPublicKeysFile, "fleet-hub-public-keys-file", "file with the public nkeys of the hub, one on each line: two while the hub changes its key")
	text(&f.HubUID, "fleet-hub-uid", "accept only the hub whose namespace kube-system has this UID; without it, each hub that has a key of --fleet-hub-public-keys-file")
	text(&f.NATS.URL, "fleet-nats-url", "NATS servers of the hub, separated by commas")
	text(&f.NATS.User, "fleet-nats-user", "user at the hub's NATS; without it, the name in --fleet-member")
	text(&f.NATS.PasswordFile, "fleet-nats-password-file", "file with the password of --fleet-nats-user")
	text(&f.NATS.CredentialsFile, "fleet-nats-creds", "NATS credentials file for the hub's NATS, instead of user and password")
	text(&f.NATS.CAFile, "fleet-nats-ca", "file with the certificates that sign those of the hub's NATS servers; without it, the system's")
}

const flagHubKeyFile = "fleet-hub-key-file"

// Validate returns an error for flags that do not belong together.
func (f *FleetFlags) Validate() error {
	given := map[string]string{
		"--fleet-member-key-file": f.MemberKeyFile, "--fleet-hub-public-keys-file": f.HubPublicKeysFile, "--fleet-nats-url": f.NATS.URL,
	}
	for _, name := range []string{"--fleet-member-key-file", "--fleet-hub-public-keys-file", "--fleet-nats-url"} {
		switch {
		case f.Member != "" && given[name] == "":
			return fmt.Errorf("--fleet-member also needs %s; sluice fleet join prints all that a member needs", name)
		case f.Member == "" && given[name] != "":
			return fmt.Errorf("%s needs --fleet-member, the name of this cluster's FleetMember at the hub", name)
		}
	}
	if _, err := f.hubKeys(); err != nil {
		return err
	}
	if f.Member == "" {
		return nil
	}
	_, _, err := f.memberKeys()
	return err
}

// hubKeys reads the private keys of the hub.
func (f *FleetFlags) hubKeys() ([]nkeys.KeyPair, error) {
	var keys []nkeys.KeyPair
	for _, name := range f.HubKeyFiles {
		key, err := readSeed(name)
		if err != nil {
			return nil, fmt.Errorf("--fleet-hub-key-file: %w", err)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// memberKeys reads the private key of the member, and the public keys of its hub.
func (f *FleetFlags) memberKeys() (own nkeys.KeyPair, hub []string, err error) {
	if own, err = readSeed(f.MemberKeyFile); err != nil {
		return nil, nil, fmt.Errorf("--fleet-member-key-file: %w", err)
	}
	body, err := os.ReadFile(f.HubPublicKeysFile)
	if err != nil {
		return nil, nil, fmt.Errorf("--fleet-hub-public-keys-file: %w", err)
	}
	for line := range strings.Lines(string(body)) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if !nkeys.IsValidPublicUserKey(line) {
			return nil, nil, fmt.Errorf("--fleet-hub-public-keys-file: %.60q is no public nkey of a user, which begins with U", line)
		}
		hub = append(hub, line)
	}
	if len(hub) == 0 {
		return nil, nil, fmt.Errorf("--fleet-hub-public-keys-file: %s has no key", f.HubPublicKeysFile)
	}
	return own, hub, nil
}

// readSeed reads a private nkey of a user.
func readSeed(name string) (nkeys.KeyPair, error) {
	body, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	key, err := nkeys.FromSeed(bytes.TrimSpace(body))
	if err != nil {
		return nil, fmt.Errorf("%s has no private nkey, which begins with SU: %w", name, err)
	}
	if public, err := key.PublicKey(); err != nil || !nkeys.IsValidPublicUserKey(public) {
		return nil, fmt.Errorf("the nkey in %s is not the private key of a user; such a key begins with SU", name)
	}
	return key, nil
}

// NewExecutor creates the part that carries out releases. With the flags for it, the executor is also part of the hub of a fleet, or connected to one.
func (f *FleetFlags) NewExecutor(ctx context.Context, env Env, checks map[string]health.Check) (func(context.Context) error, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	configMap, err := env.ScriptConfigMapName()
	if err != nil {
		return nil, err
	}
	clientOptions := kube.Options{
		Scripts:         script.NewLibrary(luaconfiguration.FS, env.LuaDir),
		ScriptConfigMap: configMap, Installation: env.Installation, Cluster: env.ClusterName, Logger: env.Logger,
	}
	var link *fleetlink.Link
	if f.Member != "" {
		clientOptions.Order = func(r *api.Rollout) (o kube.FleetOrder) {
			o.Generation = link.Generation(types.NamespacedName{Namespace: r.Namespace, Name: r.Name})
			o.Permit, o.Blocked, o.Refused = link.Order(r)
			return o
		}
	}
	client, err := kube.New(env.Config, clientOptions)
	if err != nil {
		return nil, fmt.Errorf("make client of executor: %w", err)
	}
	if err := preflightOf(ctx, env); err != nil {
		return nil, err
	}
	// An executor keeps little memory compared with its garbage: collection at twice the heap cost a fifth of its CPU.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(300)
	}
	options := executor.Options{
		ClusterName: env.ClusterName, Kube: client, Queue: env.Queue, Workers: env.Workers, HistoryLimit: env.HistoryLimit, Logger: env.Logger, Registerer: env.Registry,
	}
	var runs []func(context.Context) error
	if f.Member != "" {
		if link, err = f.newLink(ctx, env, client); err != nil {
			return nil, err
		}
		options.Fleet = link
		runs = append(runs, link.Run)
	}
	if len(f.HubKeyFiles) > 0 {
		hub, err := fleethub.New(fleethub.Options{
			ClusterName: env.ClusterName, Config: env.Config, Queue: env.Queue, Workers: env.Workers, Keys: f.hubKeys, Logger: env.Logger, Registerer: env.Registry,
		})
		if err != nil {
			return nil, err
		}
		checks["fleet"] = hub.Ready
		runs = append(runs, hub.Run)
	} else {
		runs = append(runs, func(ctx context.Context) error {
			return env.Queue.ConsumeApprovals(ctx, queue.ApprovalOptions{
				Cluster: env.ClusterName, Task: queue.TaskFleet, Workers: 1, Handler: fleethub.RefuseRequests(env.Queue, env.ClusterName, time.Now), Logger: env.Logger,
			})
		})
	}
	runs = append(runs, executor.New(options).Run)
	return func(ctx context.Context) error {
		group, ctx := errgroup.WithContext(ctx)
		for _, run := range runs {
			group.Go(func() error { return run(ctx) })
		}
		return group.Wait()
	}, nil
}

// newLink returns the connection of this cluster to its hub.
func (f *FleetFlags) newLink(ctx context.Context, env Env, client *kube.Client) (*fleetlink.Link, error) {
	uid, err := client.ClusterUID(ctx)
	if err != nil {
		return nil, err
	}
	nats, err := f.NATS.QueueOptions("sluice-member-"+f.Member, env.Logger)
	if err != nil {
		return nil, fmt.Errorf("--fleet-nats-password-file: %w", err)
	}
	if nats.CredentialsFile == "" {
		nats.User = cmp.Or(nats.User, f.Member)
	}
	return fleetlink.New(fleetlink.Options{
		NATS: nats, Member: fleetmessage.Member{Name: f.Member, UID: uid}, Hub: f.HubUID, Keys: f.memberKeys, Enforcement: client.Enforcement,
		Version: programVersion(), ClusterName: env.ClusterName, Publish: env.Queue.PublishHint, Logger: env.Logger, Registerer: env.Registry,
	}), nil
}

// programVersion returns the version that the Go toolchain has recorded in this program.
func programVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return "unknown"
}
