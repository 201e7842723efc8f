package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/pkg/queue/embedded"
	"sluice.dev/sluice/test/controlplane"
	"sluice.dev/sluice/test/proxy"
)

// shows returns the hub and its members.
func (f *fleet) shows() []*show {
	all := []*show{f.show}
	for _, m := range f.members {
		all = append(all, m.show)
	}
	return all
}

// startClusters starts the control planes at once.
func (f *fleet) startClusters(ctx context.Context) error {
	var starting errgroup.Group
	for _, s := range f.shows() {
		starting.Go(func() (err error) {
			if err := os.MkdirAll(s.dir, 0o700); err != nil {
				return err
			}
			s.cluster, err = controlplane.Start(ctx, controlplane.Options{Dir: s.dir + "/cluster", CRDs: []string{"bin/crds/istio.yaml"}})
			return err
		})
	}
	return starting.Wait()
}

func (f *fleet) install(ctx context.Context) error {
	f.say("$ for cluster in hub eu1 us1 ap1; do sluice install --print | kubectl --context $cluster apply --server-side -f -; done")
	manifests, err := f.run(ctx, "install", "--print")
	if err != nil {
		return err
	}
	var installing errgroup.Group
	for _, s := range f.shows() {
		installing.Go(func() error {
			_, err := s.cluster.KubectlStdin(ctx, manifests, "apply", "--server-side", "-f", "-")
			return err
		})
	}
	return installing.Wait()
}

// join makes the keys, applies what the commands print, and starts the NATS of the hub with the accounts of the members.
func (f *fleet) join(ctx context.Context) error {
	key, err := f.run(ctx, "fleet", "hub-key")
	if err != nil {
		return err
	}
	f.say("$ sluice fleet hub-key | kubectl apply --server-side -f -")
	out, err := f.cluster.KubectlStdin(ctx, key, "apply", "--server-side", "-f", "-")
	f.print(out)
	if err != nil {
		return err
	}
	if err := saveSecret(f.dir, key); err != nil {
		return err
	}
	passwords := map[string]string{}
	for _, m := range f.members {
		if m.line, err = proxy.New(); err != nil {
			return err
		}
		if err := f.command(ctx, "fleet", "join", m.context, "--hub-nats-url", m.line.URL(), "--labels", m.label, "--dir", m.dir); err != nil {
			return err
		}
		if err := f.kubectl(ctx, "apply", "-f", filepath.Join(m.dir, m.context+"-hub.yaml")); err != nil {
			return err
		}
		file := filepath.Join(m.dir, m.context+"-member.yaml")
		if err := m.kubectl(ctx, "apply", "--server-side", "-f", file); err != nil {
			return err
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("read the objects of %s: %w", m.context, err)
		}
		if err := saveSecret(m.dir, string(text)); err != nil {
			return err
		}
		password, err := os.ReadFile(filepath.Join(m.dir, "password"))
		if err != nil {
			return fmt.Errorf("read the password of %s: %w", m.context, err)
		}
		passwords[m.context] = strings.TrimSpace(string(password))
	}
	f.nats, err = embedded.Start(embedded.Options{Dir: filepath.Join(f.dir, "nats"), Members: passwords, SaveCredentials: true})
	if err != nil {
		return err
	}
	for _, m := range f.members {
		if err := m.line.LeadTo(f.nats.URL()); err != nil {
			return err
		}
	}
	return nil
}

// saveSecret writes the files of the Secret in a stream of objects, as a volume of a pod has them.
func saveSecret(dir, objects string) error {
	for text := range strings.SplitSeq(objects, "---\n") {
		var secret corev1.Secret
		if yaml.Unmarshal([]byte(text), &secret) != nil || secret.Kind != "Secret" {
			continue
		}
		for name, content := range secret.StringData {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
				return fmt.Errorf("write %s of Secret %s: %w", name, secret.Name, err)
			}
		}
		return nil
	}
	return fmt.Errorf("there is no Secret in\n%s", objects)
}

// startParts runs Sluice for each cluster, with the settings that the commands have printed for its executor as flags.
func (f *fleet) startParts(ctx context.Context) error {
	f.say("  Simulated pods run no Sluice, so that it runs here, with the settings and the files of these objects.")
	if err := f.startSluice("--fleet-hub-key-file", f.dir+"/hub.nk", "--nats-url", f.nats.URL()); err != nil {
		return err
	}
	for _, m := range f.members {
		if err := m.startSluice("--fleet-member", m.context, "--fleet-member-key-file", m.dir+"/member.nk", "--fleet-hub-public-keys-file", m.dir+"/public-keys",
			"--fleet-nats-url", m.line.URL(), "--fleet-nats-password-file", m.dir+"/password"); err != nil {
			return err
		}
	}
	if err := f.kubectl(ctx, "wait", "fleetmembers", "--all", "--for=jsonpath={.status.phase}=Ready", "--timeout", patience.String()); err != nil {
		return err
	}
	return f.command(ctx, "fleet", "members")
}
