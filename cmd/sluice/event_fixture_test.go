package main

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"sluice.dev/sluice/cmd/internal/component"
	"sluice.dev/sluice/deploy/nats/trial"
	"sluice.dev/sluice/test/controlplane"
)

// pipeline is a cluster in which each part of Sluice is the NATS user of deploy/nats. Its directory has the files of a CI job: a token, the certificate of the
// receiver, and the password for NATS.
type pipeline struct {
	*testing.T
	cluster   *controlplane.Cluster
	dir       string
	nats, url string
	// stopExecutor stops the executor, so that approvals get no more decisions.
	stopExecutor func()
}

// site is the release of the pipeline, with the names of docs/approvals.md.
const site = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: checkout, namespace: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: checkout}}
  template: {metadata: {labels: {app: checkout}}, spec: {containers: [{name: c, image: "registry.example.com/checkout:v1"}]}}
---
apiVersion: rollouts.kruise.io/v1beta1
kind: Rollout
metadata: {name: checkout, namespace: shop}
spec:
  workloadRef: {apiVersion: apps/v1, kind: Deployment, name: checkout}
  strategy: {canary: {enableExtraWorkloadForCanary: true, steps: [{replicas: 1, pause: {}}, {replicas: 2, pause: {}}]}}
`

func aPipeline(t *testing.T) *pipeline {
	t.Helper()
	return aPipelineOf(t, func(*pipeline) []string { return nil })
}

// aPipelineOf returns a pipeline whose executor runs with more flags, and whose NATS has these clusters of a fleet.
func aPipelineOf(t *testing.T, executorFlags func(*pipeline) []string, clusters ...string) *pipeline {
	t.Helper()
	p := &pipeline{T: t, cluster: controlplane.ForTest(t, controlplane.Options{Audit: true}), dir: t.TempDir()}
	judged(t, p.cluster, "shop")
	code, manifests, errors := sluice(t.Context(), "install", "--print", "--part", "namespace,crds,policies,rbac")
	if code != 0 {
		t.Fatal(errors)
	}
	kubectl(t, p.cluster, manifests, "apply", "--server-side", "-f", "-")
	established(t, p.cluster)
	kubectl(t, p.cluster, "", "create", "namespace", "shop")
	p.nats = trial.Start(t, clusters...).ClientURL()
	cert, key := p.certificate()
	var receiver component.ReceiverFlags
	watcher := component.NewCommand("watcher", "", receiver.NewWatcher)
	receiver.AddFlags(watcher.Flags())
	log, _ := p.start(watcher, "--approval-listen", "127.0.0.1:0", "--approval-tls-cert", cert, "--approval-tls-key", key)
	found := log.await(t, regexp.MustCompile(`url=(https://\S+)/v1/events`))
	p.url = found[1]
	var fleet component.FleetFlags
	executor := component.NewCommand("executor", "", fleet.NewExecutor)
	fleet.AddFlags(executor.Flags())
	_, p.stopExecutor = p.start(executor, executorFlags(p)...)
	return p
}

// start runs a part as its service account and NATS user.
func (p *pipeline) start(c *cobra.Command, args ...string) (log *waiting, stop func()) {
	p.Helper()
	secret := filepath.Join(p.dir, c.Name()+".password")
	p.write(secret, trial.Password(c.Name()))
	c.SetArgs(append([]string{"--kubeconfig", p.cluster.Kubeconfig, "--as-service-account", "--nats-url", p.nats, "--nats-user", c.Name(), "--nats-password-file", secret}, args...))
	log = &waiting{}
	c.SetErr(log)
	c.SetOut(log)
	ctx, cancel := context.WithCancel(context.WithoutCancel(p.Context()))
	ended := make(chan error, 1)
	go func() { ended <- c.ExecuteContext(ctx) }()
	stopped := false
	stop = func() {
		if cancel(); !stopped {
			stopped = true
			if err := <-ended; err != nil {
				p.Errorf("%s ended with %v:\n%s", c.Name(), err, log)
			}
		}
	}
	p.Cleanup(func() {
		stop()
		if strings.Contains(strings.ToLower(log.String()), "violation") {
			p.Errorf("%s lacks a permission of NATS:\n%s", c.Name(), log)
		}
	})
	return log, stop
}

// waiting is a log with a method that waits for a text.
type waiting struct{ buffer }

func (w *waiting) await(t *testing.T, pattern *regexp.Regexp) []string {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); <-tick.C {
		if found := pattern.FindStringSubmatch(w.String()); found != nil {
			return found
		}
	}
	t.Fatalf("the log never has %s:\n%s", pattern, w)
	return nil
}

func (p *pipeline) write(path, text string) {
	p.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		p.Fatal(err)
	}
}

// certificate writes the certificate that Go keeps for tests, also as ca.crt, and its key.
func (p *pipeline) certificate() (cert, key string) {
	p.Helper()
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	pair := server.TLS.Certificates[0]
	secret, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		p.Fatal(err)
	}
	text := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}))
	cert, key = filepath.Join(p.dir, "ca.crt"), filepath.Join(p.dir, "tls.key")
	p.write(cert, text)
	p.write(key, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
	return cert, key
}

// release removes an earlier release, and starts another one up to its first pause.
func (p *pipeline) release() {
	p.Helper()
	kubectl(p.T, p.cluster, "", "delete", "-n", "shop", "rollout,deployment", "--all", "--timeout=600s")
	apply(p.T, p.cluster, site)
	kubectl(p.T, p.cluster, "", "wait", "-n", "shop", "rollout/checkout", "--for=jsonpath={.status.phase}=Healthy", "--timeout=600s")
	kubectl(p.T, p.cluster, "", "wait", "-n", "shop", "deployment/checkout", "--for=condition=Available", "--timeout=600s")
	kubectl(p.T, p.cluster, "", "set", "image", "-n", "shop", "deployment/checkout", "c=registry.example.com/checkout:v2")
	p.pausedAt(1)
}

func (p *pipeline) pausedAt(step int) {
	p.Helper()
	kubectl(p.T, p.cluster, "", "wait", "-n", "shop", "rollout/checkout", fmt.Sprintf("--for=jsonpath={.status.canaryStatus.currentStepIndex}=%d", step), "--timeout=600s")
	kubectl(p.T, p.cluster, "", "wait", "-n", "shop", "rollout/checkout", "--for=jsonpath={.status.canaryStatus.currentStepState}=StepPaused", "--timeout=600s")
}

// approvals returns the actors and comments of the accepted approvals.
func (p *pipeline) approvals() string {
	p.Helper()
	return kubectl(p.T, p.cluster, "", "get", "-n", "shop", "rollout/checkout", "-o", "jsonpath={range .status.approvals[*]}{.step} {.decision} {.actor} {.comment};{end}")
}
