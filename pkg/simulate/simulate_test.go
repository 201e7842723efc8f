package simulate

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func objects(t *testing.T, paths ...string) []*unstructured.Unstructured {
	t.Helper()
	for i := range paths {
		paths[i] = "../../" + paths[i]
	}
	all, err := ReadManifests(paths, nil, "default")
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// of returns the options for a simulation of the Rollout among objects.
func of(t *testing.T, all []*unstructured.Unstructured) Options {
	t.Helper()
	i := slices.IndexFunc(all, func(o *unstructured.Unstructured) bool { return o.GetKind() == api.KindRollout })
	if i < 0 {
		t.Fatal("no Rollout")
	}
	name := types.NamespacedName{Namespace: all[i].GetNamespace(), Name: all[i].GetName()}
	return Options{Rollout: name, Objects: all, Command: "sluice", Now: noon}
}

func played(t *testing.T, o Options) *Report {
	t.Helper()
	r, err := SimulateRelease(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Every manifest that users copy is released to its end. At the end gateway objects and Services are as their owners wrote them.
func TestEveryExampleCanBeCarriedOut(t *testing.T) {
	t.Parallel()
	for _, path := range []string{
		"examples/seeds/istio-walkthrough", "examples/seeds/istio-blog", "examples/seeds/004", "examples/blue-green", "examples/traffic-routing",
		"examples/workloads/advanced-daemonset.yaml", "examples/workloads/advanced-statefulset.yaml", "examples/workloads/cloneset.yaml",
		"examples/workloads/daemonset.yaml", "examples/workloads/statefulset.yaml",
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			o := of(t, objects(t, path))
			p := &simulation{Options: o, now: noon}
			p.store = newStore(func() time.Time { return p.now })
			if err := p.buildServer(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := p.playRelease(t.Context()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]Refusal(nil), p.rec.report.Refusals); diff != "" {
				t.Fatal(diff)
			}
			for _, k := range p.store.allKeys() {
				switch origin := p.store.origins[k]; {
				case !isReported(k) || k.Group == "apps" || k.Group == "apps.kruise.io" || k.Group == api.Group:
				case origin == nil:
					t.Errorf("%v is left", k)
				default:
					if diff := cmp.Diff(ownerFields(origin), ownerFields(p.store.objects[k])); diff != "" {
						t.Errorf("%v is not as its owner wrote it:\n%s", k, diff)
					}
				}
			}
		})
	}
}

// These are the other ways to release the workloads of the examples.
func TestEveryStyleCanBeCarriedOut(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		path   string
		change func(strategy map[string]any)
		does   string // among other things
	}{
		"a Deployment in partition style": {"examples/seeds/istio-walkthrough",
			func(s map[string]any) { delete(s["canary"].(map[string]any), "enableExtraWorkloadForCanary") },
			"let Deployment workload-demo replace pods: 34% and 0 more"},
		"a canary in the place of stable pods": {"examples/seeds/istio-walkthrough",
			func(s map[string]any) { s["canary"].(map[string]any)["capacity"] = "Constant" },
			"scale Deployment workload-demo to 1 replicas"},
		"a CloneSet beside itself": {"examples/workloads/cloneset.yaml", func(s map[string]any) {
			s["blueGreen"] = map[string]any{"trafficRoutings": s["canary"].(map[string]any)["trafficRoutings"], "steps": []any{
				map[string]any{"replicas": "100%", "traffic": "0%"}, map[string]any{"replicas": "100%", "traffic": "100%"}}}
			delete(s, "canary")
		}, "let CloneSet shop replace pods: 0% and 5 more"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := objects(t, tt.path)
			for _, o := range all {
				if o.GetKind() == api.KindRollout {
					tt.change(o.Object["spec"].(map[string]any)["strategy"].(map[string]any))
				}
			}
			r := played(t, of(t, all))
			if got := lines(r); len(r.Refusals) > 0 || !slices.Contains(got, tt.does) {
				t.Errorf("nothing says %q:\n%s", tt.does, strings.Join(got, "\n"))
			}
		})
	}
}

// A cluster with the same objects shows the same plan, and gets only read requests.
func TestAClusterIsOnlyReadFrom(t *testing.T) {
	t.Parallel()
	all := objects(t, "examples/seeds/istio-walkthrough")
	behind := &server{store: newStore(func() time.Time { return noon })}
	for _, o := range all {
		if o.GetKind() == "VirtualService" {
			o.SetAPIVersion("networking.istio.io/v1alpha3") // the version that the Rollout names: this server serves only one
		}
		behind.store.loadObject(behind.store.keyOf(o), withDefaults(o))
	}
	behind.store.whole = true
	if _, _, err := behind.store.runControllers("default"); err != nil {
		t.Fatal(err)
	}
	want := played(t, of(t, all))
	live := of(t, all)
	live.Objects, live.Config = nil, served(t, behind)
	got := played(t, live)
	if diff := cmp.Diff(lines(want), lines(got)); diff != "" {
		t.Errorf("(-files +cluster):\n%s", diff)
	}
}

// served returns the config of a server that fails the test on any write request.
func served(t *testing.T, s *server) *rest.Config {
	t.Helper()
	cluster := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			t.Errorf("%s %s left the rehearsal", r.Method, r.URL)
		}
		answer, err := s.RoundTrip(r)
		if err != nil {
			t.Errorf("%s %s: %v", r.Method, r.URL, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(answer.StatusCode)
		if _, err := io.Copy(w, answer.Body); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(cluster.Close)
	return &rest.Config{Host: cluster.URL}
}

// The plan continues a release under way from its current state.
func TestAReleaseUnderWayIsPlayedToItsEnd(t *testing.T) {
	t.Parallel()
	o := of(t, objects(t, "examples/seeds/istio-walkthrough"))
	p := &simulation{Options: o, now: noon}
	p.store = newStore(func() time.Time { return p.now })
	if err := p.buildServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	for paused := false; !paused; {
		h, err := p.runUntilIdle(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		moved, err := p.advanceCluster(t.Context(), h)
		if err == nil && !moved && stateOf(h.status) == rollout.StateIdle {
			err = p.changeTemplate()
		}
		if err != nil {
			t.Fatal(err)
		}
		paused = !moved && stateOf(h.status) == rollout.StatePaused
	}
	live := o
	live.Objects, live.Config = nil, served(t, &server{store: p.store})
	got := lines(played(t, live))
	want := []string{
		"== Step 1 of 3", "for approval: sluice approve rollouts-demo -n default",
		"== Step 2 of 3", "scale canary workload-demo-canary to 2 replicas",
	}
	if diff := cmp.Diff(want, got[:min(len(got), len(want))]); diff != "" {
		t.Error(diff)
	}
	if last := got[len(got)-1]; last != "changed VirtualService vs-demo" {
		t.Errorf("the plan ends with %q", last)
	}
}

// The plan reports the waits of a release: for a gateway that reports its accepted generation, and for metrics.
func TestWaitsAreTold(t *testing.T) {
	t.Parallel()
	all := objects(t, "pkg/simulate/testdata/waits.yaml")
	got := lines(played(t, of(t, all)))
	for _, want := range []string{
		"until the gateway has accepted HTTPRoute web", "until the metrics of the step pass", "for 1m30s: the pause of the step",
		"until Service web-canary has endpoints: 1", "until ReplicaSet web-canary-canary has 1 ready",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("nothing says %q:\n%s", want, strings.Join(got, "\n"))
		}
	}
}

// lines returns the actions and waits of a report.
func lines(r *Report) []string {
	var all []string
	for _, p := range r.Phases {
		all = append(all, "== "+p.Name)
		for _, e := range p.Events {
			all = append(all, strings.TrimSpace(e.Does+e.Waits))
		}
		for _, c := range p.Changes {
			all = append(all, c.Change+" "+c.Object)
		}
	}
	for _, refusal := range r.Refusals {
		all = append(all, refusal.String())
	}
	return all
}

func TestAVersionThatNobodyHasNamedIsReleasedWhateverIDTheWorkloadHas(t *testing.T) {
	t.Parallel()
	all := objects(t, "examples/seeds/istio-walkthrough")
	for _, o := range all {
		if o.GetKind() == "Deployment" {
			o.SetAnnotations(map[string]string{api.AnnotationRolloutID: "r1"})
		}
	}
	if got := lines(played(t, of(t, all))); !slices.Contains(got, "== Step 3 of 3") {
		t.Errorf("the plan is\n%s", strings.Join(got, "\n"))
	}
}

func TestWhatHoldsAReleaseIsToldBeforeIt(t *testing.T) {
	t.Parallel()
	set := func(kind string, value any, fields ...string) func([]*unstructured.Unstructured) []*unstructured.Unstructured {
		return func(all []*unstructured.Unstructured) []*unstructured.Unstructured {
			for _, o := range all {
				if o.GetKind() == kind {
					if err := unstructured.SetNestedField(o.Object, value, fields...); err != nil {
						t.Error(err)
					}
				}
			}
			return all
		}
	}
	without := func(kind string) func([]*unstructured.Unstructured) []*unstructured.Unstructured {
		return func(all []*unstructured.Unstructured) []*unstructured.Unstructured {
			return slices.DeleteFunc(all, func(o *unstructured.Unstructured) bool { return o.GetKind() == kind })
		}
	}
	steps := func(steps ...any) func([]*unstructured.Unstructured) []*unstructured.Unstructured {
		return set("Rollout", steps, "spec", "strategy", "canary", "steps")
	}
	// versions returns two versions of the workload with the rollout-ids.
	versions := func(ids ...string) func([]*unstructured.Unstructured) []*unstructured.Unstructured {
		return func(all []*unstructured.Unstructured) []*unstructured.Unstructured {
			i := slices.IndexFunc(all, func(o *unstructured.Unstructured) bool { return o.GetKind() == "Deployment" })
			next := all[i].DeepCopy()
			all[i].SetAnnotations(map[string]string{api.AnnotationRolloutID: ids[0]})
			next.SetAnnotations(map[string]string{api.AnnotationRolloutID: ids[1]})
			if err := unstructured.SetNestedField(next.Object, "new", "spec", "template", "metadata", "labels", "version"); err != nil {
				t.Error(err)
			}
			return append(all, next)
		}
	}
	// A second Deployment has pods that the Service selects too.
	beside := func(all []*unstructured.Unstructured) []*unstructured.Unstructured {
		i := slices.IndexFunc(all, func(o *unstructured.Unstructured) bool { return o.GetKind() == "Deployment" })
		other := all[i].DeepCopy()
		other.SetName("batch")
		return append(all, other)
	}
	for name, tt := range map[string]struct {
		change func([]*unstructured.Unstructured) []*unstructured.Unstructured
		want   []string // the beginnings of refusals
	}{
		"a Service whose selector the stable pods do not have": {
			set("Service", map[string]any{"app": "nginx", "tier": "front"}, "spec", "selector"),
			[]string{"StableUnreachable: Service service-demo reaches no ready pod of the stable version, because its selector app=nginx,tier=front does not match them"},
		},
		"a Service whose port the stable pods do not have": {
			set("Service", []any{map[string]any{"port": int64(80), "targetPort": "web"}}, "spec", "ports"),
			[]string{"StableUnreachable: Service service-demo reaches no ready pod of the stable version, because its port 80 leads to their port web, which they do not have"},
		},
		"a Service that selects pods of another workload as well": {
			beside, []string{"EndpointsDropped: Service service-demo selects pods of other workloads as well, which would get no requests through it during the release: batch-"},
		},
		"no gateway object": {without("VirtualService"), []string{"RouteMissing: VirtualService vs-demo does not exist; create it"}},
		"no Service":        {without("Service"), []string{"ServiceMissing: Service service-demo does not exist; create it"}},
		"no workload":       {without("Deployment"), []string{"WorkloadMissing: Workload Not Found; create it"}},
		"an invalid step":   {steps(map[string]any{"replicas": "none"}), []string{"InvalidSpec: The Rollout is not valid: step 1: replicas must be"}},
		"a misspelt field":  {set("Rollout", true, "spec", "strategi"), []string{`InvalidSpec: Rollout rollouts-demo: unknown field "spec.strategi"`}},
		"no rule for the Service": {
			set("VirtualService", []any{map[string]any{"route": []any{map[string]any{"destination": map[string]any{"host": "other"}}}}}, "spec", "http"),
			[]string{"step 1, VirtualService vs-demo, RouteUnsupported: ", "step 2, VirtualService vs-demo, RouteUnsupported: ", "step 3, VirtualService vs-demo, RouteUnsupported: "},
		},
		"a field that is not carried out": {
			set("Rollout", map[string]any{"capacity": "Constant", "steps": []any{map[string]any{"replicas": int64(1)}}}, "spec", "strategy", "canary"), []string{"Unsupported: "},
		},
		"a version under the rollout-id of the stable one": {versions("r1", "r1"), []string{
			"SameRolloutID: A change of the pod template of Deployment workload-demo under the rollout-id r1 of the stable version is no release"}},
		"a release that is paused": {set("Rollout", true, "spec", "strategy", "paused"), []string{"step 1, Stalled: Rollout has been paused"}},
		"a Rollout that is off":    {set("Rollout", true, "spec", "disabled"), []string{"Stalled: Rollout is disabled"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := played(t, of(t, tt.change(objects(t, "examples/seeds/istio-walkthrough"))))
			var got []string
			for i, refusal := range r.Refusals {
				text := refusal.String()
				if i < len(tt.want) && strings.HasPrefix(text, tt.want[i]) {
					text = tt.want[i]
				}
				got = append(got, text)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The second manifest of the workload is the new version.
func TestANewVersionMayBeGiven(t *testing.T) {
	t.Parallel()
	all := objects(t, "examples/seeds/istio-walkthrough")
	i := slices.IndexFunc(all, func(o *unstructured.Unstructured) bool { return o.GetKind() == "Deployment" })
	next := all[i].DeepCopy()
	containers, _, _ := unstructured.NestedSlice(next.Object, "spec", "template", "spec", "containers")
	containers[0].(map[string]any)["image"] = "nginx:next"
	if err := unstructured.SetNestedSlice(next.Object, containers, "spec", "template", "spec", "containers"); err != nil {
		t.Fatal(err)
	}
	r := played(t, of(t, append(all, next)))
	if r.NewVersion != "manifest" || len(r.Refusals) > 0 {
		t.Errorf("new version %q, refused %v", r.NewVersion, r.Refusals)
	}
	if text := strings.Join(r.Phases[1].Changes[0].Diff, "\n"); !strings.Contains(text, "+      - image: nginx:next") && !strings.Contains(text, "image: nginx:next") {
		t.Errorf("the new image is not in the diff:\n%s", text)
	}
}

// The plan shows the copy that the executor would make of a policy. It warns of a policy that the executor does not copy. It refuses a step in which the
// gateway would send requests to the canary in plain text.
func TestAPlanTellsOfPoliciesThatNameTheStableService(t *testing.T) {
	t.Parallel()
	all := objects(t, "examples/seeds/istio-walkthrough")
	policy := func(apiVersion, kind, name string, spec map[string]any) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind, "spec": spec}}
		o.SetName(name)
		o.SetNamespace(all[0].GetNamespace())
		return o
	}
	rule := func(name, host, mode string) *unstructured.Unstructured {
		return policy("networking.istio.io/v1", "DestinationRule", name,
			map[string]any{"host": host, "trafficPolicy": map[string]any{"tls": map[string]any{"mode": mode}}})
	}
	all = append(all, rule("tuned", "service-demo", "SIMPLE"),
		policy("security.istio.io/v1", "AuthorizationPolicy", "callers", map[string]any{"targetRef": map[string]any{"kind": "Service", "name": "service-demo"}}))
	r := played(t, of(t, all))
	if len(r.Refusals) > 0 {
		t.Errorf("refused %v", r.Refusals)
	}
	const warning = "AuthorizationPolicy callers names Service service-demo and not Service service-demo-canary"
	if text := strings.Join(r.Warnings, "\n"); !strings.Contains(text, warning) {
		t.Errorf("it warns of %q", text)
	}
	made := ""
	for _, phase := range r.Phases {
		for _, change := range phase.Changes {
			if change.Object == "DestinationRule service-demo-canary.tuned" && change.Change == "created" {
				made += strings.Join(change.Diff, "\n")
			}
		}
	}
	if !strings.Contains(made, "+  host: service-demo-canary") || !strings.Contains(made, "+      mode: SIMPLE") {
		t.Errorf("made is:\n%s", made)
	}

	r = played(t, of(t, append(all, rule("own", "service-demo-canary", "DISABLE"))))
	const refused = "DestinationRule own has those to Service service-demo-canary carried in plain text"
	if len(r.Refusals) != 3 || !strings.Contains(r.Refusals[0].String(), refused) {
		t.Errorf("refused %v", r.Refusals)
	}
}

// The plan of a Rollout in a fleet shows the whole release, and warns that the release waits for permits.
func TestAPlanShowsAReleaseOfAFleetWithAllItsPermits(t *testing.T) {
	t.Parallel()
	all := objects(t, "examples/seeds/istio-walkthrough")
	for _, o := range all {
		if o.GetKind() == "Rollout" {
			if err := unstructured.SetNestedMap(o.Object, map[string]any{"namespace": "shop", "name": "demo"}, "spec", "fleet"); err != nil {
				t.Fatal(err)
			}
		}
	}
	r := played(t, of(t, all))
	if len(r.Refusals) > 0 || r.Phases[len(r.Phases)-1].Name != "The end" {
		t.Errorf("it ends in %q, refused %v", r.Phases[len(r.Phases)-1].Name, r.Refusals)
	}
	if text := strings.Join(r.Warnings, "\n"); !strings.Contains(text, "waits for permits of FleetRollout shop/demo") {
		t.Errorf("it warns of %q", text)
	}
}
