package workload

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/controlplane"
	"sluice.dev/sluice/test/world"
)

// replicas is the number of pods of every shop, until it is scaled.
const replicas = 5

// counts has the number of new pods in each of the three steps of every shop, weights their share of the traffic in a
// routed shop.
var counts, weights = []int{1, 2, 3}, []int{20, 40, 60}

const name = "shop"

// image returns the image of a version of the shop.
func image(version int) string { return fmt.Sprintf("registry.example.com/shop:%d", version) }

// objects has the objects of an example, by kind. The workload is "workload".
type objects map[string]*unstructured.Unstructured

// option changes an example before it is applied.
type option func(objects)

// shop is an example in its own namespace.
type shop struct {
	*testing.T
	w      *world.World
	ns     string
	kind   Kind
	routed bool
	pods   *witness
	// workload, service and route are the owner's objects before any release.
	workload, service, route *unstructured.Unstructured
}

var (
	services        = schema.GroupVersionResource{Version: "v1", Resource: "services"}
	pods            = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	virtualServices = schema.GroupVersionResource{Group: "networking.istio.io", Version: "v1", Resource: "virtualservices"}
)

// aShop creates the example of a kind, and returns when the next change will be held.
func aShop(t *testing.T, kind Kind, options ...option) *shop {
	t.Helper()
	s := &shop{T: t, w: shared, kind: kind}
	s.namespace()
	s.pods = watched(s)
	all := read(t, kind)
	if kind.Daemon {
		s.scale(replicas)
		set(all["workload"], map[string]any{s.label(): "true"}, "spec", "template", "spec", "nodeSelector")
	}
	set(all["workload"], int64(0), "spec", "template", "spec", "terminationGracePeriodSeconds")
	for _, change := range options {
		change(all)
	}
	s.create(services, all["Service"])
	if route := all["VirtualService"]; route != nil {
		s.routed = true
		s.create(virtualServices, route)
	}
	s.create(kind.Resource, all["workload"])
	s.settled(image(1))
	s.runs(map[string]int{image(1): replicas})
	s.workload, s.service = s.get(kind.Resource), s.get(services)
	if s.routed {
		s.route = s.get(virtualServices)
	}
	s.create(api.RolloutResource(), all["Rollout"])
	s.await(world.Healthy)
	s.adopted()
	return s
}

// namespace creates a namespace for the shop. It outlives the test, because deleting one costs the control plane more
// than a release; the test deletes only the workload. At the end, it checks the audit log of the namespace for breaches
// of the laws.
func (s *shop) namespace() {
	s.Helper()
	client, err := kubernetes.NewForConfig(s.w.Config)
	if err != nil {
		s.Fatal(err)
	}
	made, err := client.CoreV1().Namespaces().Create(s.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: s.kind.Name + "-"}}, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	s.ns = made.Name
	writes := s.w.Journal(s.ns)
	s.Cleanup(func() {
		list, err := writes()
		if err != nil {
			s.Error(err)
		}
		for _, breach := range slices.Concat(world.Breaches(list), world.Overexposed(list), world.StableServes(list)) {
			s.Errorf("law broken: %s", breach)
		}
		background := metav1.DeletePropagationBackground
		err = s.client(s.kind.Resource).Delete(context.WithoutCancel(s.Context()), name, metav1.DeleteOptions{PropagationPolicy: &background})
		if err != nil && !apierrors.IsNotFound(err) {
			s.Error(err)
		}
	})
}

// read decodes the example of a kind.
func read(t *testing.T, kind Kind) objects {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(world.Root(), "examples/workloads", kind.Name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	all := objects{}
	for _, manifest := range strings.Split(string(text), "---\n") {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(manifest), &u.Object); err != nil {
			t.Fatal(err)
		}
		key := u.GetKind()
		if key == kind.Kind {
			key = "workload"
		}
		all[key] = u
	}
	return all
}

func set(u *unstructured.Unstructured, value any, fields ...string) {
	if err := unstructured.SetNestedField(u.Object, value, fields...); err != nil {
		panic(err)
	}
}

// label returns the label of the nodes on which the shop may run.
func (s *shop) label() string { return "shop/" + s.ns }

// adopted waits until the next change of the workload will be held.
func (s *shop) adopted() {
	s.Helper()
	s.object(s.kind.Resource, "adopted", func(u *unstructured.Unstructured) bool {
		return u != nil && u.GetAnnotations()[api.AnnotationRollout] == name
	})
}

func (s *shop) client(kind schema.GroupVersionResource) dynamic.ResourceInterface {
	s.Helper()
	client, err := dynamic.NewForConfig(s.w.Config)
	if err != nil {
		s.Fatal(err)
	}
	return client.Resource(kind).Namespace(s.ns)
}

func (s *shop) create(kind schema.GroupVersionResource, u *unstructured.Unstructured) {
	s.Helper()
	if _, err := s.client(kind).Create(s.Context(), u, metav1.CreateOptions{FieldManager: "tester"}); err != nil {
		s.Fatal(err)
	}
}

// get reads an object of the shop. It returns nil if the object does not exist.
func (s *shop) get(kind schema.GroupVersionResource) *unstructured.Unstructured {
	s.Helper()
	u, err := s.client(kind).Get(s.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		s.Fatal(err)
	}
	return u
}

// patch sends a merge patch in YAML.
func (s *shop) patch(kind schema.GroupVersionResource, text string, subresource ...string) {
	s.Helper()
	body, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		s.Fatal(err)
	}
	client := s.client(kind)
	err = OnceKnown(s.Context(), func(ctx context.Context) error {
		_, err := client.Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: "tester"}, subresource...)
		return err
	})
	if err != nil {
		s.Fatal(err)
	}
}

// object waits until an object of the shop is as wanted. The predicate gets nil if the object does not exist.
func (s *shop) object(kind schema.GroupVersionResource, want string, reached func(*unstructured.Unstructured) bool) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	if _, err := controlplane.AwaitObject(ctx, s.client(kind), name, reached); err != nil {
		s.Fatalf("%s did not get there: %v; wanted %s; it is\n%s", kind.Resource, err, want, s.shown(kind))
	}
}

// shown returns the relevant parts of an object and of the Rollout, for messages.
func (s *shop) shown(kind schema.GroupVersionResource) string {
	var b strings.Builder
	for _, kind := range []schema.GroupVersionResource{kind, api.RolloutResource()} {
		u := s.get(kind)
		if u == nil {
			fmt.Fprintf(&b, "%s is gone\n", kind.Resource)
			continue
		}
		unstructured.RemoveNestedField(u.Object, "metadata", "managedFields")
		unstructured.RemoveNestedField(u.Object, "spec", "template")
		text, err := yaml.Marshal(u.Object)
		if err != nil {
			return err.Error()
		}
		b.Write(text)
	}
	return b.String() + fmt.Sprint(s.pods.now())
}
