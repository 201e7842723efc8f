package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/test/world"
)

// mesh is an object without a namespace, and releases of two namespaces through it.
type mesh struct {
	*testing.T
	w      *world.World
	name   string
	before string // its spec
	// one and two have not begun a release.
	one, two *shop
}

const meshRoute = `
apiVersion: kuma.io/v1alpha1
kind: TrafficRoute
mesh: default
metadata: {name: NAME, annotations: {note: of its owner}}
spec:
  sources: [{match: {kuma.io/service: "*"}}]
  destinations: [{match: {kuma.io/service: "*"}}]
  conf:
    http: [{match: {path: {prefix: /one}}, destination: {kuma.io/service: web_ONE_svc_80}}]
    destination: {kuma.io/service: web_TWO_svc_80}`

func aMesh(t *testing.T, w *world.World) *mesh {
	t.Helper()
	one := w.Namespace(t)
	t.Cleanup(func() {
		for _, args := range [][]string{{"delete", "trafficroute", one}, {"delete", "namespace", one + "-2", "--wait=false"}} {
			if _, err := w.Kubectl(context.WithoutCancel(t.Context()), args...); err != nil {
				t.Error(err)
			}
		}
	})
	return aMeshFor(t, w, one)
}

// aMeshFor returns a mesh for an existing namespace and for a new one.
func aMeshFor(t *testing.T, w *world.World, one string) *mesh {
	t.Helper()
	two := one + "-2"
	w.Do(t, "create", "namespace", two)
	w.Apply(t, one, strings.NewReplacer("NAME", one, "ONE", one, "TWO", two).Replace(meshRoute))
	m := &mesh{T: t, w: w, name: one}
	m.before = m.spec()
	m.one, m.two = m.shop(one), m.shop(two)
	return m
}

// shop applies the application in a namespace.
func (m *mesh) shop(ns string) *shop {
	m.Helper()
	s := &shop{T: m.T, w: m.w, ns: ns, kind: "trafficroute"}
	s.w.Apply(m.T, ns, m.manifests())
	s.adopted()
	return s
}

func (m *mesh) manifests() string {
	route := "customNetworkRefs: [{apiVersion: kuma.io/v1alpha1, kind: TrafficRoute, name: " + m.name + "}]"
	return strings.NewReplacer(gatewayAPI+"---\n", "", "STEPS", byWeight, "ROUTE", route).Replace(app)
}

// allow sets the owner's permission for the namespaces of these shops.
func (m *mesh) allow(shops ...*shop) {
	m.Helper()
	change := api.AnnotationAllowNamespaces + "-"
	var names []string
	for _, s := range shops {
		names = append(names, s.ns)
	}
	if len(names) > 0 {
		change = api.AnnotationAllowNamespaces + "=" + strings.Join(names, ", ")
	}
	m.w.Do(m.T, "annotate", "--overwrite", "trafficroute", m.name, change)
}

// begin brings both releases to the first step, the first one first.
func (m *mesh) begin(first, second *shop, image string) {
	m.Helper()
	m.allow(first, second)
	for _, s := range []*shop{first, second} {
		s.release(image)
		s.await(world.PausedAt(1))
	}
	m.wantShares(20, 20)
}

func (m *mesh) spec() string {
	m.Helper()
	return m.text(m.w.Get(m.T, "", "trafficroute", m.name))
}

func (m *mesh) text(of *unstructured.Unstructured) string {
	m.Helper()
	text, err := json.Marshal(of.Object["spec"])
	if err != nil {
		m.Fatal(err)
	}
	return string(text)
}

// wantShares checks the shares of both canaries. 0 means that the route does not lead to the canary.
func (m *mesh) wantShares(one, two int) {
	m.Helper()
	if got := m.shares(m.spec()); got != [2]int{one, two} {
		m.Errorf("the canaries get %v, want %d and %d: %.3000s", got, one, two, m.spec())
	}
}

func (m *mesh) shares(spec string) (shares [2]int) {
	for i, ns := range []string{m.name, m.name + "-2"} {
		const canary = `{"destination":{"kuma.io/service":"web-canary_%s_svc_80"},"weight":`
		if _, after, is := strings.Cut(spec, fmt.Sprintf(canary, ns)); is {
			_, _ = fmt.Sscanf(after, "%d", &shares[i])
		} else if strings.Contains(spec, "web-canary_"+ns+"_") {
			m.Errorf("the canary of %s is led to otherwise: %.3000s", ns, spec)
		}
	}
	return shares
}

// wantGivenBack checks that the object is as its owner wrote it.
func (m *mesh) wantGivenBack() {
	m.Helper()
	if diff := cmp.Diff(m.before, m.spec()); diff != "" {
		m.Errorf("given back (-before +after):\n%s", diff)
	}
	annotations := m.w.Get(m.T, "", "trafficroute", m.name).GetAnnotations()
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	delete(annotations, api.AnnotationAllowNamespaces)
	if diff := cmp.Diff(map[string]string{"note": "of its owner"}, annotations); diff != "" {
		m.Errorf("its annotations (-want +got):\n%s", diff)
	}
}

// both returns the shops, the given one first.
func (m *mesh) both(second bool) (first, then *shop) {
	if second {
		return m.two, m.one
	}
	return m.one, m.two
}

// inBothOrders runs a test with either release first.
func inBothOrders(t *testing.T, test func(t *testing.T, second bool)) {
	for name, second := range map[string]bool{"one first": false, "two first": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, second)
		})
	}
}

// Releases of two namespaces shape one object without a namespace, as soon as its owner permits it.
func TestReleasesOfTwoNamespacesShareAnObjectOfTheMesh(t *testing.T) {
	t.Parallel()
	m := aMesh(t, world.Shared(t))
	m.one.release("web:2")
	m.w.AwaitObject(t, m.one.ns, "deployment", "web", "to be held", func(u *unstructured.Unstructured) bool {
		return u.GetAnnotations()[api.AnnotationInProgressing] != ""
	})
	r := m.one.await(world.HeldFor(rollout.ReasonRouteNotAllowed))
	if want := "have the owner add the annotation sluice.dev/allow-namespaces: " + m.one.ns + " to it"; !strings.Contains(r.Status.Message, want) {
		t.Errorf("it says %s", r.Status.Message)
	}
	if diff := cmp.Diff(m.before, m.spec()); diff != "" || m.w.Get(t, m.one.ns, "deployment", "web-canary") != nil {
		t.Errorf("a release that nobody allowed has begun (-before +after):\n%s", diff)
	}
	m.begin(m.one, m.two, "web:2")

	m.w.Do(t, "label", "trafficroute", m.name, "edited=meanwhile")
	m.w.Approve(t, m.one.ns, "web")
	m.one.await(world.PausedAt(2))
	m.wantShares(60, 20)
	m.one.release("web:1")
	m.one.await(world.Healthy)
	m.wantShares(0, 20)
	m.w.Approve(t, m.two.ns, "web")
	m.two.await(world.PausedAt(2))
	m.w.Approve(t, m.two.ns, "web")
	m.two.await(world.Healthy)
	m.wantGivenBack()
	if labels := m.w.Get(t, "", "trafficroute", m.name).GetLabels(); labels["edited"] != "meanwhile" {
		t.Errorf("its labels are %v", labels)
	}
}

// An owner withdraws the permission, which stalls the release where it is: its share stays, even if a user approves.
// The other release goes on. With the permission again, the first one goes on. After a final withdrawal, every end of a
// release restores its part.
func TestAWordThatIsTakenBackHoldsAReleaseWhereItIs(t *testing.T) {
	t.Parallel()
	inBothOrders(t, func(t *testing.T, second bool) {
		m := aMesh(t, world.Shared(t))
		refused, other := m.both(second)
		m.begin(refused, other, "web:2")
		shares := func(ofRefused, ofOther int) {
			t.Helper()
			if second {
				ofRefused, ofOther = ofOther, ofRefused
			}
			m.wantShares(ofRefused, ofOther)
		}

		m.allow(other)
		r := refused.await(world.HeldFor(rollout.ReasonRouteNotAllowed))
		if want := refused.ns + " to it, with commas between several namespaces; the canary keeps the share that it has"; !strings.Contains(r.Status.Message, want) {
			t.Errorf("it says %s", r.Status.Message)
		}
		m.w.Approve(t, refused.ns, "web")
		refused.await(func(r *api.Rollout) bool { return r.Status.Sluice.State == string(rollout.StateReady) })
		m.w.Approve(t, other.ns, "web")
		other.await(world.PausedAt(2))
		shares(20, 60)
		m.allow(other, refused)
		refused.await(world.PausedAt(2))
		shares(60, 60)

		m.allow(other)
		refused.await(world.HeldFor(rollout.ReasonRouteNotAllowed))
		m.allow(other, refused) // and the object is as it was written
		refused.await(func(r *api.Rollout) bool { return world.Condition(r, api.ConditionStalled) == nil })
		m.allow()
		for _, s := range []*shop{refused, other} {
			s.await(world.HeldFor(rollout.ReasonRouteNotAllowed))
		}
		refused.abort()
		refused.await(func(r *api.Rollout) bool {
			c := world.Condition(r, api.ConditionProgressing)
			return c != nil && c.Reason == api.ReasonAborted
		})
		m.w.AwaitObject(t, "", "trafficroute", m.name, "without the release that was aborted", func(u *unstructured.Unstructured) bool {
			return !strings.Contains(u.GetAnnotations()[api.AnnotationReleases], refused.ns+`"`)
		})
		shares(0, 60)
		refused.release("web:1")
		refused.await(world.HeldFor(rollout.ReasonRouteNotAllowed)) // an idle Rollout shows what would stall its next release
		if second {
			m.w.Do(t, "-n", other.ns, "delete", "rollout", "web", "--timeout=600s")
		} else {
			other.release("web:1")
			other.await(world.Healthy)
		}
		m.wantGivenBack()
	})
}

// abort writes the same as sluice abort.
func (s *shop) abort() {
	s.Helper()
	r := s.await(func(*api.Rollout) bool { return true })
	s.patch("rollout", fmt.Sprintf(`{"status":{"command":{"action":"Abort","epoch":%d,"actor":"admin"}}}`, r.Status.Sluice.Epoch), "status")
}

// An original that is too large for the annotations is kept in the namespace of Sluice, once for all releases, as long
// as any release is on the object. If a user deletes it, the status reports that, and the routing stays.
func TestALargeObjectOfTheMeshIsGivenBack(t *testing.T) {
	t.Parallel()
	inBothOrders(t, func(t *testing.T, second bool) {
		m := aMesh(t, world.Shared(t))
		m.enlarge()
		first, then := m.both(second)
		for _, image := range []string{"web:2", "web:3"} {
			m.begin(first, then, image)
			m.wantStored(1)
			finish := func(s *shop) {
				t.Helper()
				for step := range int32(2) {
					s.await(world.PausedAt(step + 1))
					m.w.Approve(t, s.ns, "web")
				}
				s.await(world.Healthy)
			}
			finish(first)
			m.wantStored(1)
			finish(then)
			m.wantStored(0)
			m.wantGivenBack()
		}

		m.begin(first, then, "web:4")
		m.w.Do(t, "-n", api.DefaultNamespace, "delete", "controllerrevision", "-l", api.LabelOriginalOf+"="+m.uid())
		m.w.Approve(t, first.ns, "web")
		first.await(func(r *api.Rollout) bool {
			return strings.Contains(r.Status.Message, "is gone; apply your own version of it")
		})
		m.wantShares(20, 20)
		own := strings.Replace(m.before, `"conf":{`, `"conf":{"split":null,`, 1) // a patch keeps the fields that it does not name
		if err := m.w.Patch(t, "", "trafficroute", m.name, `{"spec":`+own+`}`); err != nil {
			t.Fatal(err)
		}
		first.await(world.PausedAt(2))
		for _, s := range []*shop{first, then} {
			s.release("web:3")
			s.await(world.Healthy)
		}
		m.wantStored(0)
		m.wantGivenBack()
	})
}

// enlarge gives the object so many sources that its original does not fit into an annotation.
func (m *mesh) enlarge() {
	m.Helper()
	sources := []any{map[string]any{"match": map[string]any{"kuma.io/service": "*"}}}
	for n := range 1500 {
		sources = append(sources, map[string]any{"match": map[string]any{"kuma.io/service": fmt.Sprintf("%s-%d_shop_svc_80", strings.Repeat("x", 140), n)}})
	}
	body, err := json.Marshal(map[string]any{"spec": map[string]any{"sources": sources}})
	if err != nil {
		m.Fatal(err)
	}
	if err := m.w.Patch(m.T, "", "trafficroute", m.name, string(body)); err != nil {
		m.Fatal(err)
	}
	m.before = m.spec()
}

func (m *mesh) uid() string {
	m.Helper()
	return string(m.w.Get(m.T, "", "trafficroute", m.name).GetUID())
}

// wantStored checks the number of originals of the object in ControllerRevisions.
func (m *mesh) wantStored(want int) {
	m.Helper()
	stored := strings.Fields(m.w.Do(m.T, "get", "controllerrevisions", "-A", "-l", api.LabelOriginalOf+"="+m.uid(), "-o", "jsonpath={.items[*].metadata.namespace}"))
	if got := strings.Join(stored, " "); got != strings.TrimSpace(strings.Repeat(api.DefaultNamespace+" ", want)) {
		m.Errorf("originals are stored in %q, want %d in %s", got, want, api.DefaultNamespace)
	}
}
