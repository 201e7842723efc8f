package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"sluice.dev/sluice/test/controlplane"
	"sluice.dev/sluice/test/natsdir"
)

// sluice runs a command line and returns its exit code and its output.
func sluice(ctx context.Context, args ...string) (code int, out, errors string) {
	var stdout, stderr bytes.Buffer
	code = executeCommand(ctx, append([]string{"sluice"}, args...), &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

func kubectl(t *testing.T, c *controlplane.Cluster, stdin string, args ...string) string {
	t.Helper()
	out, err := c.KubectlStdin(t.Context(), stdin, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// apply applies manifests, by default in the namespace default.
func apply(t *testing.T, c *controlplane.Cluster, manifests string) {
	t.Helper()
	if err := c.Apply(t.Context(), "", manifests); err != nil {
		t.Fatal(err)
	}
}

func TestRunCarriesOutAReleaseUnderTheShippedRoles(t *testing.T) {
	cluster := installed(t)
	code, _, errors := sluice(t.Context(), "run", "--webhook-addr", "127.0.0.1:0", "--webhook-cert-dir", t.TempDir(), "--nats-dir", natsdir.ForTest(t), "--kubeconfig", cluster.Kubeconfig)
	if code != 1 || !strings.Contains(errors, "error: start watcher: read the certificate in --webhook-cert-dir: ") {
		t.Errorf("a webhook without a certificate ended with %d: %s", code, errors)
	}
	run := startRun(t, cluster)

	for _, name := range []string{"workload", "virtualservice", "rollout"} {
		kubectl(t, cluster, "", "apply", "-f", filepath.Join("..", "..", "examples", "seeds", "istio-walkthrough", name+".yaml"))
	}
	kubectl(t, cluster, "", "wait", "rollout/rollouts-demo", "--for=jsonpath={.status.phase}=Healthy", "--timeout=600s")
	kubectl(t, cluster, "", "wait", "deployment/workload-demo", "--for=condition=Available", "--timeout=600s")
	watched := startWatch(t, cluster, "rollouts-demo")
	kubectl(t, cluster, "", "patch", "deployment", "workload-demo", "-p",
		`{"spec":{"template":{"spec":{"containers":[{"name":"nginx", "env":[{"name":"version", "value":"canary"}]}]}}}}`)
	kubectl(t, cluster, "", "wait", "rollout/rollouts-demo", "--for=jsonpath={.status.currentStepState}=StepPaused", "--timeout=600s")

	_, tree, _ := sluice(t.Context(), "get", "rollout", "rollouts-demo", "--kubeconfig", cluster.Kubeconfig)
	for _, want := range []string{
		">  1  replicas 1, requests with version=canary, until approved  <- you are here",
		"stable  Deployment workload-demo  3/3 ready, held at its old version",
		"canary  Deployment workload-demo-canary  1/1 ready",
		"  http[0]  version=canary -> service-demo-canary",
		"  script built-in, networking.istio.io/VirtualService/trafficRouting.lua, hash ",
	} {
		if !strings.Contains(tree, want) {
			t.Errorf("the tree at step 1 lacks %q:\n%s", want, tree)
		}
	}

	var said []string
	for range 3 {
		code, out, errors := sluice(t.Context(), "approve", "rollouts-demo", "--wait", "--timeout", "600s", "--kubeconfig", cluster.Kubeconfig)
		if code != 0 {
			t.Fatalf("approve: %s", errors)
		}
		said = append(said, strings.Split(strings.TrimSpace(out), "\n")...)
	}
	want := []string{
		"rollout.rollouts.kruise.io/rollouts-demo approved at step 1",
		"Rollout default/rollouts-demo is paused at step 2 of 3; approve it with: sluice approve rollouts-demo -n default",
		"rollout.rollouts.kruise.io/rollouts-demo approved at step 2",
		"Rollout default/rollouts-demo is paused at step 3 of 3; approve it with: sluice approve rollouts-demo -n default",
		"rollout.rollouts.kruise.io/rollouts-demo approved at step 3",
		"the release of Rollout default/rollouts-demo is complete",
	}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Errorf("what approve said (-want +got):\n%s", diff)
	}
	watched.await(t, "Phase       Progressing", "Phase       Healthy", "+  3  replicas 80%, traffic 80%, until approved")
	wantEvents(t, run, cluster)
	run.stop(t)
}

// watching is the output of a command in this process that runs until it is interrupted.
type watching struct{ lines chan string }

const watchLimit = 10 * time.Minute

func startWatch(t *testing.T, cluster *controlplane.Cluster, name string) *watching {
	t.Helper()
	w := startCommand(t, "get", "rollout", name, "-w", "--kubeconfig", cluster.Kubeconfig)
	w.await(t, "Rollout     default/"+name)
	return w
}

// startCommand runs a command line in this process until it is interrupted, or until watchLimit.
func startCommand(t *testing.T, args ...string) *watching {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), watchLimit)
	out, in := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		code := executeCommand(ctx, append([]string{"sluice"}, args...), in, io.Discard)
		_ = in.Close()
		ended <- code
	}()
	w := &watching{lines: make(chan string, 100_000)}
	go func() {
		defer close(w.lines)
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			w.lines <- scanner.Text()
		}
	}()
	t.Cleanup(func() {
		cancel()
		if code := <-ended; code != 0 {
			t.Errorf("an interrupted watch ends with code %d", code)
		}
	})
	return w
}

// await reads until each of the lines has come, in this order.
func (w *watching) await(t *testing.T, want ...string) {
	t.Helper()
	var text []string
	for line := range w.lines {
		text = append(text, line)
		if line == want[0] {
			want = want[1:]
		}
		if len(want) == 0 {
			return
		}
	}
	t.Fatalf("%q was never shown:\n%s", want, strings.Join(text, "\n"))
}

// running is a `sluice run` in this process.
type running struct {
	// end stops it and returns its exit code.
	end  func() int
	log  *buffer
	nats string // directory of its NATS
}

func startRun(t *testing.T, cluster *controlplane.Cluster, flags ...string) running {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	r := running{end: sync.OnceValue(func() int { cancel(); return <-ended }), log: &buffer{}, nats: natsdir.ForTest(t)}
	out, in := io.Pipe()
	go func() {
		ended <- executeCommand(ctx, append([]string{"sluice", "run", "--kubeconfig", cluster.Kubeconfig, "--nats-dir", r.nats}, flags...), in, r.log)
		_ = in.Close()
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "sluice is ready: cluster "+cluster.Config.Host+", NATS nats://127.0.0.1:") {
		t.Fatalf("%v, %q\n%s", err, line, r.log)
	}
	t.Cleanup(func() { r.end() })
	return r
}

// passing are warnings on a busy machine that need no action. NATS has not answered for seconds, or the API server prepares a newly installed kind.
var passing = []string{"no heartbeat received", "storage is (re)initializing"}

func (r running) stop(t *testing.T) {
	t.Helper()
	if code := r.end(); code != 0 {
		t.Errorf("sluice run ended with code %d:\n%s", code, r.log)
	}
	for line := range strings.Lines(r.log.String()) {
		complains := strings.Contains(line, "level=ERROR") || strings.Contains(line, "level=WARN")
		if complains && !slices.ContainsFunc(passing, func(text string) bool { return strings.Contains(line, text) }) {
			t.Errorf("sluice run complained: %sin\n%s", line, r.log)
		}
	}
}

// buffer is a bytes.Buffer for concurrent use.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

const pausedAt = `{"status":{"phase":"Progressing","message":"waits","currentStepIndex":%d,"currentStepState":"StepPaused",
	"canaryStatus":{"currentStepIndex":%[1]d,"currentStepState":"StepPaused"},"sluice":{"epoch":1,"pauseSeq":%[1]d}}}`

func TestAnApprovalThatMeetsAnotherWrite(t *testing.T) {
	t.Parallel()
	cluster := sharedCluster(t)
	lockWeb(t, cluster)
	for name, test := range map[string]struct {
		meanwhile []string
		code      int
		errors    string
		state     string
	}{
		"is given when the pause is still the same": {
			meanwhile: []string{"annotate", "--overwrite", "rollout", "web", "touched=yes"},
			state:     "1 StepReady",
		},
		"is not given to a later step": {
			meanwhile: []string{"patch", "rollout", "web", "--subresource=status", "--type=merge", "-p", fmt.Sprintf(pausedAt, 2)},
			code:      1, errors: "error: not approved, the release has moved meanwhile and is paused at step 2 now\n",
			state: "2 StepPaused",
		},
		"is not given when somebody else was faster": {
			meanwhile: []string{"patch", "rollout", "web", "--subresource=status", "--type=merge", "-p", `{"status":{"canaryStatus":{"currentStepState":"StepReady"}}}`},
			code:      1, errors: "error: not approved, the release has moved meanwhile: step 1 of Rollout default/web has been approved already; follow it with: sluice get rollout web -n default -w\n",
			state: "1 StepReady",
		},
	} {
		t.Run(name, func(t *testing.T) {
			apply(t, cluster, web)
			kubectl(t, cluster, "", "patch", "rollout", "web", "--subresource=status", "--type=merge", "-p", fmt.Sprintf(pausedAt, 1))
			kubeconfig := beforeFirstPatch(t, cluster.Config, func() { kubectl(t, cluster, "", test.meanwhile...) })
			code, _, errors := sluice(t.Context(), "approve", "web", "-n", "default", "--kubeconfig", kubeconfig)
			state := kubectl(t, cluster, "", "get", "rollout", "web", "-o", "jsonpath={.status.canaryStatus.currentStepIndex} {.status.canaryStatus.currentStepState}")
			if diff := cmp.Diff([]any{test.code, test.errors, test.state}, []any{code, errors, state}); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

const web = `{apiVersion: rollouts.kruise.io/v1beta1, kind: Rollout, metadata: {name: web}, spec: {
	workloadRef: {apiVersion: apps/v1, kind: Deployment, name: web},
	strategy: {canary: {enableExtraWorkloadForCanary: true, steps: [{replicas: 1}, {replicas: 2}, {replicas: 100%}]}}}}`

// beforeFirstPatch puts a proxy before the API server, which calls happen before it forwards the first patch. It returns a kubeconfig for the proxy.
func beforeFirstPatch(t *testing.T, config *rest.Config, happen func()) (kubeconfig string) {
	t.Helper()
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	if proxy.Transport, err = rest.TransportFor(config); err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPatch {
			once.Do(happen)
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	err = clientcmd.WriteToFile(clientcmdapi.Config{
		CurrentContext: "proxy",
		Contexts:       map[string]*clientcmdapi.Context{"proxy": {Cluster: "proxy"}},
		Clusters:       map[string]*clientcmdapi.Cluster{"proxy": {Server: server.URL}},
	}, kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}
