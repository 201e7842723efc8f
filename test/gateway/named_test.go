package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/test/controlplane"
	"sluice.dev/sluice/test/world"
)

// witness is one client's view of some kinds: a line for each relevant change, and the time at which it was reported.
type witness struct {
	mu    sync.Mutex
	lines []string
	at    map[string]time.Time
}

// watching has a witness watch kinds of a namespace until the test ends. told returns the line of an event, "" for an
// irrelevant one.
func (s *shop) watching(told func(watch.Event, *unstructured.Unstructured) string, kinds ...string) *witness {
	s.Helper()
	seen := &witness{at: map[string]time.Time{}}
	var watches errgroup.Group
	ctx, cancel := context.WithCancel(context.Background())
	for _, kind := range kinds {
		events, err := controlplane.Watch(ctx, s.w.Client(s.T, s.ns, kind), metav1.ListOptions{})
		if err != nil {
			s.Fatal(err)
		}
		watches.Go(func() error {
			for e := range events.ResultChan() {
				u, ok := e.Object.(*unstructured.Unstructured)
				if !ok {
					continue
				}
				if line := told(e, u); line != "" {
					seen.note(line)
				}
			}
			return nil
		})
	}
	s.Cleanup(func() { cancel(); _ = watches.Wait() })
	return seen
}

func (w *witness) note(line string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, known := w.at[line]; !known {
		w.lines, w.at[line] = append(w.lines, line), time.Now()
	}
}

// apart returns the time between two lines.
func (w *witness) apart(first, second string) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at[second].Sub(w.at[first])
}

const betaOnly = `matches: [{headers: [{name: user, value: beta}]}]`

// naming is a release in which the executor creates an object that a gateway must know before the route leads to the
// canary.
type naming struct {
	version, kind, spec string // of the gateway object
	steps               string
	policy              string // manifest of a policy of the stable Service
	made, want          string // the kind of the created object, and its spec in the first step
}

const twoShares = "[{replicas: 50%, traffic: 20%}, {replicas: 50%, traffic: 60%}]"

var namings = map[string]naming{
	"an IngressRoute copies requests": {version: "traefik.io/v1alpha1", kind: "IngressRoute", spec: "{routes: [{match: Host(`a`), kind: Rule, services: [{name: web, port: 80}]}]}",
		steps: "[{replicas: 50%, mirror: {traffic: 10%}}, {replicas: 50%, traffic: 20%}]", made: "traefikservice",
		want: `{"mirroring":{"mirrors":[{"name":"web-canary","percent":10,"port":80}],"name":"web","port":80}}`},
	"an IngressRoute changes headers": {version: "traefik.io/v1alpha1", kind: "IngressRoute", spec: "{routes: [{match: Host(`a`), kind: Rule, services: [{name: web, port: 80}]}]}",
		steps: "[{replicas: 50%, " + betaOnly + ", requestHeaderModifier: {set: [{name: X-Version, value: new}], remove: [X-Old]}}, {replicas: 50%, traffic: 20%}]", made: "middleware",
		want: `{"headers":{"customRequestHeaders":{"X-Old":"","X-Version":"new"}}}`},
	"a TraefikService copies requests": {version: "traefik.io/v1alpha1", kind: "TraefikService", spec: "{weighted: {services: [{name: web, port: 80}]}}",
		steps: "[{replicas: 50%, mirror: {traffic: 10%}}, {replicas: 50%, traffic: 20%}]", made: "traefikservice",
		want: `{"mirroring":{"mirrors":[{"name":"web-canary","percent":10,"port":80}],"name":"web","port":80}}`},
	"a VirtualService and a DestinationRule": {version: "networking.istio.io/v1", kind: "VirtualService", spec: "{hosts: [a], http: [{route: [{destination: {host: web}}]}]}",
		policy: "apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: tuned}\nspec: {host: web, trafficPolicy: {tls: {mode: SIMPLE}}}",
		steps:  twoShares, made: "destinationrule", want: `{"host":"web-canary","trafficPolicy":{"tls":{"mode":"SIMPLE"}}}`},
	"an HTTPRoute and a BackendTLSPolicy": {version: "gateway.networking.k8s.io/v1", kind: "HTTPRoute", spec: "{parentRefs: [{name: edge}], rules: " + oneRule + "}",
		policy: "apiVersion: gateway.networking.k8s.io/v1\nkind: BackendTLSPolicy\nmetadata: {name: tuned}\n" +
			`spec: {targetRefs: [{group: "", kind: Service, name: web}], validation: {hostname: a, wellKnownCACertificates: System}}`,
		steps: twoShares, made: "backendtlspolicy",
		want: `{"targetRefs":[{"group":"","kind":"Service","name":"web-canary"}],"validation":{"hostname":"a","wellKnownCACertificates":"System"}}`},
}

// manifests returns the manifests of the application, whose gateway has a grace period.
func (n naming) manifests(grace string) string {
	own := "apiVersion: " + n.version + "\nkind: " + n.kind + "\nmetadata: {name: web, annotations: {note: of its owner}}\nspec: " + n.spec + "\n"
	if n.policy != "" {
		own += "---\n" + n.policy + "\n"
	}
	return strings.NewReplacer(gatewayAPI, own, "STEPS", n.steps, "gracePeriodSeconds: 0", "gracePeriodSeconds: "+grace,
		"ROUTE", "customNetworkRefs: [{apiVersion: "+n.version+", kind: "+n.kind+", name: web}]").Replace(app)
}

// needs returns the name of the object that the gateway object needs in its current state, "" for none. That is an
// object that it names, or the copy of a policy if it leads to the canary.
func (n naming) needs(route *unstructured.Unstructured) string {
	text, _ := json.Marshal(route.Object["spec"])
	if n.policy != "" {
		if strings.Contains(string(text), `"web-canary"`) {
			return "web-canary.tuned"
		}
		return ""
	}
	at := strings.Index(string(text), `"web-canary.`)
	if at < 0 {
		return ""
	}
	made, _, _ := strings.Cut(string(text[at+1:]), `"`)
	return made
}

func (s *shop) made(kind string) []unstructured.Unstructured {
	s.Helper()
	list, err := s.w.Client(s.T, s.ns, kind).List(s.Context(), metav1.ListOptions{LabelSelector: api.LabelRolloutUID})
	if err != nil {
		s.Fatal(err)
	}
	return list.Items
}

// A client sees the named object a second before the gateway object names it. It sees its deletion a second after the
// name has gone. The owner's changes meanwhile stay, and the executor creates a deleted named object again.
func TestAGatewayHearsOfWhatIsNamedBeforeItIsNamed(t *testing.T) {
	t.Parallel()
	for name, c := range namings {
		for _, end := range []string{"completed", "rolled back"} {
			t.Run(name+", "+end, func(t *testing.T) {
				t.Parallel()
				s := aShopOf(t, c.kind, c.manifests("1"))
				names := func(u *unstructured.Unstructured) bool { return c.needs(u) != "" }
				seen := s.watching(func(e watch.Event, u *unstructured.Unstructured) string {
					made := strings.HasPrefix(u.GetName(), "web-canary.")
					switch {
					case made && e.Type == watch.Added:
						return "made"
					case made && e.Type == watch.Deleted:
						return "gone"
					case u.GetName() == "web" && e.Type == watch.Modified && names(u):
						return "named"
					case u.GetName() == "web" && e.Type == watch.Modified && u.GetAnnotations()[api.AnnotationReleases] == "":
						return "restored"
					}
					return ""
				}, uniq(strings.ToLower(c.kind), c.made)...)
				s.release("web:2")
				s.await(world.PausedAt(1))
				all := s.made(c.made)
				if len(all) != 1 {
					t.Fatalf("%d are made", len(all))
				}
				if text, _ := json.Marshal(all[0].Object["spec"]); string(text) != c.want {
					t.Errorf("made is %s, want %s", text, c.want)
				}
				if !names(s.route()) {
					t.Errorf("it is not named: %v", s.route().Object["spec"])
				}
				s.patch(s.kind, `{"metadata":{"annotations":{"note":"changed meanwhile"}}}`)
				if end == "completed" {
					s.w.Approve(t, s.ns, "web")
					s.await(world.PausedAt(2))
					if c.policy == "" && names(s.route()) {
						t.Errorf("it is still named: %v", s.route().Object["spec"])
					}
					s.w.Approve(t, s.ns, "web")
				} else {
					s.release("web:1")
				}
				s.await(world.Healthy)
				s.wantRestored(noteChanged)
				if left := s.made(c.made); len(left) > 0 {
					t.Errorf("%d are left", len(left))
				}
				seen.mu.Lock()
				lines := strings.Join(seen.lines, ", ")
				seen.mu.Unlock()
				if lines != "made, named, restored, gone" {
					t.Fatalf("it was told: %s", lines)
				}
				const grace = 950 * time.Millisecond // a report takes its time
				for _, pair := range [][2]string{{"made", "named"}, {"restored", "gone"}} {
					if apart := seen.apart(pair[0], pair[1]); apart < grace {
						t.Errorf("%s came %s after %s", pair[1], apart, pair[0])
					}
				}
			})
		}
	}
}

func uniq(a, b string) []string {
	if a == b {
		return []string{a}
	}
	return []string{a, b}
}

// The executor restores a named object, or its share, that a user removes. It does not write the route for that.
func TestWhatIsNamedComesBack(t *testing.T) {
	t.Parallel()
	c := namings["an IngressRoute copies requests"]
	s := aShopOf(t, c.kind, c.manifests("0"))
	s.release("web:2")
	s.await(world.PausedAt(1))
	before, name := s.route(), s.made("traefikservice")[0].GetName()
	if err := s.w.Client(t, s.ns, "traefikservice").Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.w.AwaitObject(t, s.ns, "traefikservice", name, "to come back", func(u *unstructured.Unstructured) bool { return u != nil })
	if err := s.w.Patch(t, s.ns, "traefikservice", name, `{"spec":{"mirroring":{"mirrors":[{"name":"web-canary","port":80,"percent":90}]}}}`); err != nil {
		t.Fatal(err)
	}
	s.w.AwaitObject(t, s.ns, "traefikservice", name, "to have its share back", func(u *unstructured.Unstructured) bool {
		text, _ := json.Marshal(u)
		return strings.Contains(string(text), `"percent":10`)
	})
	if diff := cmp.Diff(before.Object["spec"], s.route().Object["spec"]); diff != "" {
		t.Errorf("the route (-before +after):\n%s", diff)
	}
	s.release("web:1")
	s.await(world.Healthy)
	s.wantRestored(nil)
}

// Executors with only their own rights are killed and frozen while routes name created objects. No route ever names a
// missing object, and no object is left in the end.
func TestExecutorsKilledWhileRoutesNameWhatIsMade(t *testing.T) {
	t.Parallel()
	w, calm := tormented(t, world.Options{CRDs: []string{"traefik", "gateway-api"}})

	var shops []*shop
	var all sync.WaitGroup
	for name, c := range namings {
		for i := range 2 {
			s := &shop{T: t, w: w, ns: fmt.Sprintf("named-%d", len(shops)), kind: strings.ToLower(c.kind)}
			w.Do(t, "create", "namespace", s.ns)
			w.Apply(t, s.ns, c.manifests("1"))
			shops = append(shops, s)
			all.Go(func() {
				s.ready()
				there := &sync.Map{}
				s.watching(func(e watch.Event, u *unstructured.Unstructured) string {
					if strings.HasPrefix(u.GetName(), "web-canary.") {
						if e.Type == watch.Deleted {
							there.Delete(u.GetName())
						} else {
							there.Store(u.GetName(), true)
						}
						return ""
					}
					if made := c.needs(u); made != "" && u.GetName() == "web" {
						if _, known := there.Load(made); !known {
							t.Errorf("%s: %s needs %s, which is not there", name, u.GetName(), made)
						}
					}
					return ""
				}, uniq(s.kind, c.made)...)
				s.release("web:2")
				s.await(world.PausedAt(1))
				if i == 0 {
					s.release("web:1")
				} else {
					w.Approve(t, s.ns, "web")
					s.await(world.PausedAt(2))
					w.Approve(t, s.ns, "web")
				}
				s.await(world.Healthy)
			})
		}
	}
	all.Wait()
	suffered := calm()
	t.Logf("executors were killed %d times and frozen %d times", suffered.Kills, suffered.Freezes)
	for _, s := range shops {
		s.wantRestored(nil)
		for _, kind := range []string{"traefikservice", "middleware", "destinationrule", "backendtlspolicy"} {
			if left := s.made(kind); len(left) > 0 {
				t.Errorf("%d of kind %s are left in %s", len(left), kind, s.ns)
			}
		}
	}
}

// A step that Traefik cannot express stalls the release before any of its objects exists.
func TestAStepThatTraefikCannotExpressChangesNothing(t *testing.T) {
	t.Parallel()
	c := namings["an IngressRoute copies requests"]
	for steps, says := range map[string]string{
		"[{replicas: 50%, traffic: 20%}, {replicas: 50%, mirror: {traffic: 0.5%}}]": "IngressRoute web cannot carry out step 2: it copies requests in steps of 1%, and mirror asks for 0.5%",
		"[{replicas: 50%, traffic: 20%, requestHeaderModifier: {set: [{name: X-Version, value: new}]}}]": "IngressRoute web cannot carry out step 1: " +
			"it changes headers of requests that match, and not of a share of the traffic",
	} {
		t.Run(strings.Fields(says)[6], func(t *testing.T) {
			t.Parallel()
			of := c
			of.steps = steps
			s := aShopOf(t, of.kind, of.manifests("0"))
			s.release("web:2")
			r := s.await(world.HeldFor(rollout.ReasonRouteUnsupported))
			if !strings.Contains(r.Status.Message, says) {
				t.Errorf("it says %s", r.Status.Message)
			}
			if s.route().GetResourceVersion() != s.before.GetResourceVersion() || s.w.Get(t, s.ns, "deployment", "web-canary") != nil {
				t.Error("something was changed")
			}
		})
	}
}
