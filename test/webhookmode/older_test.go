// Package webhookmode plays releases on Kubernetes before 1.36, which has no MutatingAdmissionPolicy: `sluice run`
// holds workloads by its webhook. `make verify` plays it on the usual control plane without those policies. With
// ARGS=--whole=older, it plays it on the oldest supported version. The package is not a second set of scenarios: other
// packages test the steps of a release.
package webhookmode

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/test/controlplane"
	"sluice.dev/sluice/test/world"
)

// A user of an older Kubernetes follows docs/installing.md, and releases.
func TestTheWebhookAloneHoldsWhatIsReleased(t *testing.T) {
	t.Parallel()
	i := install(t)
	before, _ := i.sluice("check") // its exit code depends on the other messages
	if !strings.Contains(before, "the webhook that does the same is not there") && !i.newer {
		t.Errorf("before the webhook is installed, sluice check says:\n%s", before)
	}
	i.run("--webhook-addr", "127.0.0.1:0")
	i.awaitHold()
	if after, _ := i.sluice("check"); !strings.Contains(after, "MutatingWebhookConfiguration sluice-hold is there and does what the policies would") {
		t.Errorf("with the webhook, sluice check says:\n%s", after)
	}
	for name, kind := range map[string]world.AppKind{
		"canary": "", "partition": world.InPlace, "blue-green": world.BlueGreen, "daemonset": world.Daemons, "statefulset": world.Ordered,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i.releases(t, kind)
		})
	}
}

// A user with another authority, such as cert-manager, gives the watcher a directory, and the configuration the
// certificate to trust.
func TestTheWebhookServesCertificatesOfAnotherAuthority(t *testing.T) {
	t.Parallel()
	i := install(t)
	dir, authority := issue(t)
	i.run("--webhook-addr", "127.0.0.1:0", "--webhook-cert-dir", dir)
	i.w.Do(t, "patch", "mutatingwebhookconfiguration", "sluice-hold", "--type=json",
		"-p", `[{"op":"add","path":"/webhooks/0/clientConfig/caBundle","value":"`+base64.StdEncoding.EncodeToString(authority)+`"}]`)
	i.awaitHold()
	t.Run("partition", func(t *testing.T) { i.releases(t, world.InPlace) })
}

// installation is Sluice, installed without policies that hold changes.
type installation struct {
	t *testing.T
	w *world.World
	// newer reports that the control plane could have served the policies.
	newer  bool
	binary string
}

func install(t *testing.T) *installation {
	t.Helper()
	istio, err := controlplane.IstioCRDs()
	if err != nil {
		t.Fatal(err)
	}
	i := &installation{t: t}
	i.w = &world.World{Cluster: controlplane.ForTest(t, controlplane.Options{Audit: true, CRDs: []string{istio}}), Name: "default"}
	if i.binary, err = world.Build(t.TempDir(), "sluice"); err != nil {
		t.Fatal(err)
	}
	const mutating = "MutatingAdmissionPolicy"
	client, err := discovery.NewDiscoveryClientForConfig(i.w.Config)
	if err != nil {
		t.Fatal(err)
	}
	served, err := client.ServerResourcesForGroupVersion("admissionregistration.k8s.io/v1")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range served.APIResources {
		i.newer = i.newer || r.Kind == mutating
	}
	_, err = i.w.KubectlStdin(t.Context(), i.manifests("namespace,crds,policies,rbac"), "apply", "--server-side", "-f", "-")
	switch {
	case i.newer && err != nil:
		t.Fatal(err)
	case i.newer:
		i.w.Do(t, "delete", "mutatingadmissionpolicies,mutatingadmissionpolicybindings", "--all")
		return i
	case err == nil:
		t.Fatalf("an API server that serves no %s took them", mutating)
	}
	for line := range strings.Lines(err.Error()) {
		if strings.Contains(line, "rror") && !strings.Contains(line, mutating) {
			t.Errorf("installing says more than that it does not know the policies: %s", line)
		}
	}
	return i
}

// sluice returns both outputs of the program.
func (i *installation) sluice(args ...string) (string, error) {
	out, err := exec.Command(i.binary, append(args, "--kubeconfig", i.w.Kubeconfig)...).CombinedOutput()
	return string(out), err
}

// manifests returns the manifests of some parts of the installation.
func (i *installation) manifests(parts string) string {
	i.t.Helper()
	out, err := i.sluice("install", "--print", "--part", parts)
	if err != nil {
		i.t.Fatalf("sluice install: %v\n%s", err, out)
	}
	return out
}

// run starts `sluice run` until the test has ended, and makes the API server call its webhook.
func (i *installation) run(flags ...string) {
	i.t.Helper()
	run := exec.Command(i.binary, append([]string{"run", "--kubeconfig", i.w.Kubeconfig, "--nats-dir", i.t.TempDir()}, flags...)...)
	said, err := run.StderrPipe()
	if err != nil {
		i.t.Fatal(err)
	}
	if err := run.Start(); err != nil {
		i.t.Fatal(err)
	}
	var log strings.Builder
	ended := make(chan struct{})
	i.t.Cleanup(func() {
		_ = run.Process.Signal(os.Interrupt)
		<-ended
		if i.t.Failed() {
			i.t.Logf("sluice run said:\n%s", log.String())
		}
	})
	address := make(chan string, 1)
	go func() {
		defer close(ended)
		defer close(address)
		for lines := bufio.NewScanner(said); lines.Scan(); log.WriteString(lines.Text() + "\n") {
			if _, at, ok := strings.Cut(lines.Text(), `msg="the webhook that holds workloads is served" part=watcher address=`); ok {
				address <- at
			}
		}
		_ = run.Wait() // the log has the reason
	}()
	at, ok := <-address
	if !ok {
		i.t.Fatalf("sluice run ended:\n%s", log.String())
	}
	const service = "service: {namespace: sluice-system, name: sluice-webhook, path: /hold, port: 443}"
	manifests := i.manifests("webhook")
	if !strings.Contains(manifests, service) {
		i.t.Fatalf("the webhook is not configured by\n%s\nin\n%s", service, manifests)
	}
	manifests = strings.Replace(manifests, service, "url: https://"+at+"/hold", 1)
	if _, err := i.w.KubectlStdin(i.t.Context(), manifests, "apply", "--server-side", "-f", "-"); err != nil {
		i.t.Fatal(err)
	}
}

// awaitHold waits until the API server trusts the webhook and calls it.
func (i *installation) awaitHold() {
	i.t.Helper()
	ns, name := i.create(i.t, world.InPlace)
	if err := i.w.AwaitHold(world.Patient(i.t), ns, "deployment/"+name); err != nil {
		i.t.Fatal(err)
	}
}

var steps = []world.Step{{Replicas: 1, Weight: 20}, {Replicas: 2, Weight: 100}}

// create creates an application with an idle Rollout, in its own namespace.
func (i *installation) create(t *testing.T, kind world.AppKind) (namespace, name string) {
	t.Helper()
	client, err := dynamic.NewForConfig(i.w.Config)
	if err != nil {
		t.Fatal(err)
	}
	namespace = i.w.Namespace(t)
	app := world.App{Name: "shop", Replicas: 4, Kind: kind, GraceSeconds: 1, Steps: steps}
	if err := app.Create(t.Context(), client, namespace); err != nil {
		t.Fatal(err)
	}
	i.w.Await(t, namespace, app.Name, world.Healthy)
	i.w.Do(t, "-n", namespace, "rollout", "status", kind.Resource().Resource+"/"+app.Name)
	return namespace, app.Name
}

// releases plays a whole release. The change is held when it is applied, and each step waits for its approval. In the
// end, the workload is as its owner wrote it.
func (i *installation) releases(t *testing.T, kind world.AppKind) {
	t.Helper()
	w := i.w
	ns, name := i.create(t, kind)
	resource := strings.TrimSuffix(kind.Resource().Resource, "s")
	workload := resource + "/" + name
	route, before := w.Get(t, ns, "virtualservice", name), w.Get(t, ns, resource, name)

	w.Do(t, "-n", ns, "set", "image", workload, "c=app:2")
	for step := range steps {
		r := w.Await(t, ns, name, world.PausedAt(int32(step+1)))
		for _, said := range r.Status.Sluice.Transitions {
			if strings.Contains(said.Message, "seized") {
				t.Errorf("the webhook did not hold the change: %s", said.Message)
			}
		}
		if out, err := i.sluice("approve", name, "-n", ns); err != nil {
			t.Fatalf("sluice approve: %v\n%s", err, out)
		}
	}
	w.Await(t, ns, name, world.Healthy)
	w.Do(t, "-n", ns, "rollout", "status", workload)
	if diff := cmp.Diff(spec(t, route), spec(t, w.Get(t, ns, "virtualservice", name))); diff != "" {
		t.Errorf("the route is not as its owner wrote it (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(strings.Replace(spec(t, before), "app:1", "app:2", 1), spec(t, w.Get(t, ns, resource, name))); diff != "" {
		t.Errorf("the workload is not as its owner wrote it (-want +got):\n%s", diff)
	}
}

// spec leaves out a partition of 0, which means none. The server sets it, not the owner, and it does not come back.
func spec(t *testing.T, u *unstructured.Unstructured) string {
	t.Helper()
	text, err := yaml.Marshal(u.Object["spec"])
	if err != nil {
		t.Fatal(err)
	}
	return strings.Replace(string(text), "  rollingUpdate:\n    partition: 0\n", "", 1)
}

// issue creates an authority and a certificate of it for the loopback address, in a directory with the files of
// cert-manager.
func issue(t *testing.T) (dir string, authority []byte) {
	t.Helper()
	root := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		NotBefore: root.NotBefore, NotAfter: root.NotAfter}
	rootKey, leafKey := key(t), key(t)
	dir = t.TempDir()
	write := func(name, kind string, body []byte, err error) []byte {
		if err != nil {
			t.Fatal(err)
		}
		text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: body})
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
		return text
	}
	body, err := x509.CreateCertificate(rand.Reader, root, root, rootKey.Public(), rootKey)
	authority = write("ca.crt", "CERTIFICATE", body, err)
	body, err = x509.CreateCertificate(rand.Reader, leaf, root, leafKey.Public(), rootKey)
	write("tls.crt", "CERTIFICATE", body, err)
	body, err = x509.MarshalECPrivateKey(leafKey)
	write("tls.key", "EC PRIVATE KEY", body, err)
	return dir, authority
}

func key(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}
