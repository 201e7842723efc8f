//go:build linux

package live

import (
	"context"
	"fmt"
	"math"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/world"
)

const app = `
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080, name: PROTOCOL}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 4
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}, annotations: {sluice.dev/never-ready: "true"}, finalizers: [sluice.dev/container]}
    spec: {containers: [{name: web, image: "web:1"}]}
---
apiVersion: rollouts.kruise.io/v1beta1
kind: Rollout
metadata: {name: web}
spec:
  workloadRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  strategy:
    canary:
      enableExtraWorkloadForCanary: true
      steps:
AUDIENCES      - {replicas: 50%, traffic: 20%}
      - {replicas: 50%, traffic: 50%}
      - {replicas: 50%, traffic: 100%}
      trafficRoutings: [{service: web, REFER}]
---
`

const (
	// sample is the number of requests that measure a share. The result must be within deviations standard deviations
	// of the wanted share.
	sample     = 1000
	deviations = 4
	// byTheRoute is the value of the header that routes add.
	byTheRoute = "by the route"
	// late is the time after which a gateway without the new route has failed.
	late = 5 * time.Minute
)

// shop is one application behind one gateway, with users.
type shop struct {
	*testing.T
	w      *world.World
	ns     string
	plane  plane
	pods   *kubelet
	client *client
	before string
	stop   func() *tally
}

func open(t *testing.T, p plane) *shop {
	t.Helper()
	if name := p.missing(); name != "" {
		t.Skipf("bin/%s is not built; run make verify ARGS=--whole=live", name)
	}
	w := world.Shared(t)
	s := &shop{T: t, w: w, ns: w.Namespace(t), plane: p}
	s.pods = runPods(t, w, s.ns, p.tls)
	t.Cleanup(func() {
		if t.Failed() {
			out, err := w.Kubectl(context.WithoutCancel(t.Context()), "-n", s.ns, "get", "pods,services,endpointslices", "-o", "wide", "--show-labels")
			t.Logf("what there is (%v):\n%s", err, out)
		}
	})
	s.client = newClient(p.start(t, w, s.ns))
	if p.tls {
		s.client.overTLS()
	}
	address, err := url.Parse(s.client.url)
	if err != nil {
		t.Fatal(err)
	}
	protocol := "http"
	if p.grpc {
		protocol = "grpc"
	}
	audiences := ""
	if p.mirror > 0 {
		audiences = fmt.Sprintf("      - {replicas: 50%%, mirror: {traffic: %d%%}}\n", p.mirror)
	}
	for _, a := range p.audiences {
		modifier := ""
		if a.told {
			modifier = ", requestHeaderModifier: {set: [{name: " + told + ", value: " + byTheRoute + "}]}"
		}
		audiences += "      - {replicas: 50%, matches: " + a.matches + modifier + "}\n"
	}
	w.Apply(t, s.ns, strings.NewReplacer("AUDIENCES", audiences, "NAMESPACE", s.ns, "PROTOCOL", protocol, "REFER", p.refer, "HOST", s.client.host, "PORT", address.Port()).Replace(app+p.route))
	w.Available(t, s.ns, "web")
	s.await(world.Healthy)
	w.AwaitObject(t, s.ns, "deployment", "web", "to be adopted", func(u *unstructured.Unstructured) bool {
		return u != nil && u.GetAnnotations()[api.AnnotationRollout] == "web"
	})
	s.reached()
	s.before = s.written()
	s.stop = s.client.stream(t)
	return s
}

// reached waits until the gateway serves the route for the first time.
func (s *shop) reached() {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), late)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		seen := s.client.burst(ctx, 10*users, nil)
		if len(seen.failures) == 0 {
			return
		}
		select {
		case <-ctx.Done():
			s.Fatalf("%d of %d requests are not answered: %s", len(seen.failures), 10*users, seen.failures[0])
		case <-tick.C:
		}
	}
}

func (s *shop) await(goal world.Goal) { s.Helper(); s.w.Await(s.T, s.ns, "web", goal) }

// written returns the parts of the route that users and tools write, to the byte.
func (s *shop) written() string {
	s.Helper()
	return s.w.Do(s.T, "-n", s.ns, "get", s.plane.object, "web", "-o", `go-template={{printf "%v\n%v\n%v" .spec .metadata.labels .metadata.annotations}}`)
}

func (s *shop) release(image string) {
	s.Helper()
	if err := s.w.Patch(s.T, s.ns, "deployment", "web", `{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"`+image+`"}]}}}}`); err != nil {
		s.Fatal(err)
	}
}

// wantShare checks the percentage of requests that the new version answers. A gateway routes by a change only some time
// after it, Traefik after up to two seconds. So wantShare waits until it sees the change, and measures then.
func (s *shop) wantShare(moment string, percent int, headers map[string]string) {
	s.Helper()
	told, ctx := time.Now(), s.Context()
	heard := time.Duration(0)
	for tried := s.client.burst(ctx, sample, headers); !within(tried, percent); tried = s.client.burst(ctx, sample, headers) {
		if heard = time.Since(told); heard > late {
			s.report(moment, tried)
			s.Fatalf("%s: the gateway never sent %d%% to the new version, but %s of %d", moment, percent, tried.says(), sample)
		}
	}
	got := s.client.burst(ctx, sample, headers)
	s.Logf("%s: %s of %d, wanted %d%% of web:2 ± %.0f; the gateway took up to %s", moment, got.says(), sample, percent, bound(percent), heard.Round(time.Millisecond))
	s.report(moment, got)
	if !within(got, percent) {
		s.Errorf("%s: the new version answered %d of %d requests; wanted %d%%", moment, got.answers["web:2"], sample, percent)
	}
}

// wantCopies checks the percentage of requests that the new version gets as copies, while the stable version answers
// all requests.
func (s *shop) wantCopies(percent int) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), late)
	defer cancel()
	for round := 0; ; round++ {
		name := fmt.Sprint("copies ", round)
		got := s.client.burst(ctx, sample, map[string]string{counted: name})
		s.report("with a mirror", got)
		if got.answers["web:1"] != sample {
			s.Fatalf("with a mirror: %s of %d", got.says(), sample)
		}
		copies := s.pods.settled(name, "web:2")
		if math.Abs(float64(copies)-sample*float64(percent)/100) <= bound(percent) {
			s.Logf("with a mirror of %d%%: %d of %d requests are copied, wanted %d ± %.0f", percent, copies, sample, sample*percent/100, bound(percent))
			return
		}
		if ctx.Err() != nil {
			s.Fatalf("with a mirror of %d%%: %d of %d requests are copied", percent, copies, sample)
		}
	}
}

// report shows the first failed requests.
func (s *shop) report(moment string, t *tally) {
	s.Helper()
	for _, failure := range t.failures[:min(len(t.failures), 5)] {
		s.Errorf("%s: a request failed at %s", moment, failure)
	}
}

// bound returns the allowed distance of a number of answers from its share. By chance, one sample in 16,000 exceeds it.
func bound(percent int) float64 {
	share := float64(percent) / 100
	return deviations * math.Sqrt(sample*share*(1-share))
}

func within(t *tally, percent int) bool {
	return math.Abs(float64(t.answers["web:2"])-sample*float64(percent)/100) <= bound(percent)
}

// wantSteps goes through the steps up to one with a weight. At each step, it checks which requests get the new version.
func (s *shop) wantSteps(weights ...int) {
	s.Helper()
	step := int32(0)
	next := func() {
		s.Helper()
		if step++; step > 1 {
			s.w.Approve(s.T, s.ns, "web")
		}
		s.await(world.PausedAt(step))
	}
	if s.plane.mirror > 0 {
		next()
		s.wantCopies(s.plane.mirror)
	}
	for _, a := range s.plane.audiences {
		next()
		for _, headers := range a.in {
			s.wantShare(fmt.Sprintf("step %d, %v", step, headers), 100, headers)
		}
		before := s.pods.requests(byTheRoute)
		if a.told != (before >= sample) {
			s.Errorf("step %d: a route told %d requests something", step, before)
		}
		for _, headers := range a.out {
			s.wantShare(fmt.Sprintf("step %d, %v", step, headers), 0, headers)
		}
		if more := s.pods.requests(byTheRoute) - before; more > 0 {
			s.Errorf("step %d: %d requests were told something that do not match", step, more)
		}
	}
	for _, percent := range weights {
		next()
		s.wantShare(fmt.Sprintf("step %d", step), percent, nil)
		if s.plane.tag != "" {
			s.wantShare(fmt.Sprintf("step %d, with the tag", step), 100, map[string]string{"X-Tag": s.plane.tag})
		}
	}
}

// wantEnd checks the state after the end of a release.
func (s *shop) wantEnd(percent int) {
	s.Helper()
	s.await(world.Healthy)
	s.w.Available(s.T, s.ns, "web")
	s.wantShare("the end", percent, nil)
	if diff := cmp.Diff(s.before, s.written()); diff != "" {
		s.Errorf("the route (-before +after):\n%s", diff)
	}
	if s.w.Get(s.T, s.ns, "service", "web-canary") != nil {
		s.Error("the canary Service is left")
	}
	seen := s.stop()
	s.Logf("requests all the while: %s, %d failed", seen.says(), len(seen.failures))
	s.report("all the while", seen)
}

// Requests go on during the whole release, and none of them fails.
func TestLive(t *testing.T) {
	t.Parallel()
	for _, p := range planes {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			t.Run("a release", func(t *testing.T) {
				t.Parallel()
				s := open(t, p)
				s.release("web:2")
				s.wantSteps(20, 50, 100)
				s.w.Approve(t, s.ns, "web")
				s.wantEnd(100)
			})
			t.Run("an abort", func(t *testing.T) {
				t.Parallel()
				s := open(t, p)
				s.release("web:2")
				s.wantSteps(20)
				s.release("web:1")
				s.wantEnd(0)
			})
		})
	}
}
