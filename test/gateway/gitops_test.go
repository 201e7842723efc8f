package gateway

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/test/world"
)

// A GitOps tool that writes the Ingress every second, in whatever way, meets nobody: the release makes an Ingress of its own.
func TestAGitOpsActorOnAnIngressIsNotMet(t *testing.T) {
	t.Parallel()
	for name, way := range world.Ways() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := anIngressShop(t, "nginx", "", ingressRules, byWeight)
			actor := s.actor(way, "networking.k8s.io/v1", "Ingress")
			actor.Rounds(t, 1)
			s.release("web:2")
			s.await(world.PausedAt(1))
			actor.Rounds(t, 2)
			if u := s.w.Get(t, s.ns, "ingress", "web-canary"); u == nil || u.GetAnnotations()["nginx.ingress.kubernetes.io/canary-weight"] != "20" {
				t.Errorf("the canary Ingress is %v", u)
			}
			s.w.Approve(t, s.ns, "web")
			s.await(world.PausedAt(2))
			s.w.Approve(t, s.ns, "web")
			s.await(world.Healthy)
			s.noIngress("web-canary")
		})
	}
}

// One that writes the rules of an HTTPRoute is not fought: the release is held with who it is, and goes on when it lets the rules alone.
func TestAGitOpsActorOnAnHTTPRouteIsToldAndNotFought(t *testing.T) {
	t.Parallel()
	for name, way := range world.Ways() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := aShop(t, "HTTPRoute", oneRule, byWeight, "gateway: {httpRouteName: web}")
			actor := s.actor(way, "gateway.networking.k8s.io/v1", "HTTPRoute")
			actor.Rounds(t, 1)
			s.release("web:2")
			s.await(world.HeldFor(rollout.HoldContested))
			actor.Rounds(t, 2)
			before := s.route()
			actor.Rounds(t, 3)
			if now := s.route(); now.GetResourceVersion() != before.GetResourceVersion() {
				t.Error("the HTTPRoute still changes: there is a write war")
			}
			actor.Stop()
			s.w.AwaitObject(t, s.ns, "httproute", "web", "to be routed", func(u *unstructured.Unstructured) bool {
				rules, _, _ := unstructured.NestedSlice(u.Object, "spec", "rules")
				refs, _, _ := unstructured.NestedSlice(rules[0].(map[string]any), "backendRefs")
				return len(refs) == 2
			})
			s.await(world.PausedAt(1))
			s.wantRules("[]: web 80, web-canary 20")
			s.release("web:1")
			s.await(world.Healthy)
			s.wantRules("[]: web 5")
		})
	}
}

// One that leaves alone what the field manager sluice owns, as it can be told to, meets no release, and sees to the rest.
func TestAGitOpsActorThatIgnoresWhatIsOursIsNotMet(t *testing.T) {
	t.Parallel()
	for name, way := range world.Ways() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := aShop(t, "HTTPRoute", oneRule, byWeight, "gateway: {httpRouteName: web}")
			actor := s.actor(ignoringOurs(way), "gateway.networking.k8s.io/v1", "HTTPRoute")
			actor.Rounds(t, 1)
			s.release("web:2")
			s.await(world.PausedAt(1))
			s.patch("httproute", `{"metadata":{"labels":{"team":"somebody"}}}`)
			actor.Rounds(t, 3)
			s.wantRules("[]: web 80, web-canary 20")
			if team := s.route().GetLabels()["team"]; team != "shop" {
				t.Errorf("the label is %q", team)
			}
			s.w.Approve(t, s.ns, "web")
			s.await(world.PausedAt(2))
			s.w.Approve(t, s.ns, "web")
			s.await(world.Healthy)
			actor.Rounds(t, 2)
			s.wantRules("[]: web 5")
		})
	}
}

// ignoringOurs writes what another way writes, but for the fields that we own, which it takes as they are.
func ignoringOurs(way world.Way) world.Way {
	return func(w *world.World, client dynamic.ResourceInterface, manifest *unstructured.Unstructured) (func(context.Context) error, error) {
		return func(ctx context.Context) error {
			live, err := client.Get(ctx, manifest.GetName(), metav1.GetOptions{})
			if err != nil {
				return err
			}
			u := manifest.DeepCopy()
			for _, entry := range live.GetManagedFields() {
				owned := map[string]any{}
				if entry.Manager != api.FieldManager {
					continue
				}
				if err := json.Unmarshal(entry.FieldsV1.Raw, &owned); err != nil {
					return err
				}
				takeOver(u.Object, live.Object, owned)
			}
			write, err := way(w, client, u)
			if err != nil {
				return err
			}
			return write(ctx)
		}, nil
	}
}

// takeOver copies the fields that are owned; lists are copied whole.
func takeOver(into, from, owned map[string]any) {
	for key, within := range owned {
		name, field := strings.CutPrefix(key, "f:")
		if !field {
			continue
		}
		inner, _ := within.(map[string]any)
		of, deeper := from[name].(map[string]any)
		switch {
		case len(inner) > 0 && deeper:
			to, is := into[name].(map[string]any)
			if !is {
				to = map[string]any{}
			}
			takeOver(to, of, inner)
			into[name] = to
		case from[name] == nil:
			delete(into, name)
		default:
			into[name] = from[name]
		}
	}
}

// actor writes the object again and again as its owner has it in a repository.
func (s *shop) actor(way world.Way, apiVersion, kind string) *world.Actor {
	s.Helper()
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": apiVersion, "kind": kind, "spec": s.before.Object["spec"],
		"metadata": map[string]any{"name": "web", "namespace": s.ns, "labels": s.before.GetLabels()},
	})
	if err != nil {
		s.Fatal(err)
	}
	manifest := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, &manifest.Object); err != nil {
		s.Fatal(err)
	}
	return s.w.Act(s.T, way, s.w.Client(s.T, s.ns, s.kind), manifest)
}
