package view_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/cmd/internal/view"
	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/workload/kinds"
	"sluice.dev/sluice/test/drawn"
)

// now is when each of the cases is looked at.
var now = time.Date(2026, 11, 20, 10, 1, 0, 0, time.UTC)

func TestWhatIsDrawn(t *testing.T) {
	drawn.Cases(t, func(t *testing.T) drawn.Case {
		var shown view.View
		return func(name string, content []byte) (string, bool) {
			if name == "objects.yaml" {
				shown = viewOf(t, content)
				return "", false
			}
			return strings.Join(view.Render(shown, styleOf(name)), "\n") + "\n", true
		}
	})
}

func TestEveryKindOfTheTableIsDrawnWithItsOwnCounts(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds.All() {
		t.Run(kind.GroupKind.String(), func(t *testing.T) {
			t.Parallel()
			u := &unstructured.Unstructured{Object: map[string]any{}}
			u.SetGroupVersionKind(kind.GroupKind.WithVersion(kind.Versions[0]))
			u.SetName("web")
			_ = unstructured.SetNestedField(u.Object, int64(12), kind.WantedPath()...)
			_ = unstructured.SetNestedField(u.Object, int64(5), "status", kind.Status.Ready)
			drawn := strings.Join(view.Render(view.View{Now: now, Rollout: &api.Rollout{}, Workload: u}, view.Style{}), "\n")
			if want := kind.GroupKind.Kind + " web  5/12 ready"; !strings.Contains(drawn, want) {
				t.Errorf("it does not say %q:\n%s", want, drawn)
			}
		})
	}
}

// styleOf reads the name of an expected text: words that say how it is drawn.
func styleOf(name string) view.Style {
	var s view.Style
	for _, word := range strings.Fields(name) {
		switch word {
		case "terminal":
			s.Color, s.Unicode = true, true
		case "plugin":
			s.Command = "kubectl sluice"
		case "namespaced":
			s.Namespaced = true
		case "short":
			s.MaxPods = 2
		}
	}
	return s
}

// viewOf reads the objects of a case. A Missing object stands for a gateway object that does not exist, Unread for a sentence.
func viewOf(t *testing.T, objects []byte) view.View {
	t.Helper()
	shown := view.View{Now: now}
	for _, document := range bytes.Split(objects, []byte("\n---\n")) {
		obj := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &obj.Object); err != nil {
			t.Fatal(err)
		}
		switch obj.GetKind() {
		case "Rollout":
			shown.Rollout = read[api.Rollout](t, document)
		case "Deployment":
			shown.Deployments = append(shown.Deployments, *read[appsv1.Deployment](t, document))
		case "ReplicaSet":
			shown.ReplicaSets = append(shown.ReplicaSets, *read[appsv1.ReplicaSet](t, document))
		case "StatefulSet", "DaemonSet", "CloneSet":
			shown.Workload = whole(t, document)
		case "ControllerRevision":
			shown.ControllerRevisions = append(shown.ControllerRevisions, *read[appsv1.ControllerRevision](t, document))
		case "Pod":
			shown.Pods = append(shown.Pods, *read[corev1.Pod](t, document))
		case "Missing":
			shown.Routes = append(shown.Routes, view.Route{Kind: "VirtualService", Name: obj.GetName()})
		case "Unread":
			shown.Unread = append(shown.Unread, obj.GetName())
		default:
			shown.Routes = append(shown.Routes, view.Route{Kind: obj.GetKind(), Name: obj.GetName(), Object: whole(t, document)})
		}
	}
	return shown
}

func read[T any](t *testing.T, document []byte) *T {
	t.Helper()
	into := new(T)
	if err := yaml.UnmarshalStrict(document, into); err != nil {
		t.Fatalf("%v in\n%s", err, document)
	}
	return into
}

// whole reads numbers as the API server's clients do, as integers.
func whole(t *testing.T, document []byte) *unstructured.Unstructured {
	t.Helper()
	text, err := yaml.YAMLToJSON(document)
	if err != nil {
		t.Fatal(err)
	}
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON(text); err != nil {
		t.Fatal(err)
	}
	return obj
}
