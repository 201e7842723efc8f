package matrix

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/controlplane"
	"sluice.dev/sluice/test/workload"
	"sluice.dev/sluice/test/world"
)

// cell is one event of a release under way.
type cell struct {
	*testing.T
	w     *world.World
	ns    string
	col   column
	steps []step
	// replicas is the number of pods that the workload wants.
	replicas int
	seen     *witness
	writes   func() ([]world.Write, error)
	bound    context.Context
	// over reports that the namespace was deleted.
	over bool
	// before has the owner's objects before any release, by kind.
	before map[string]*unstructured.Unstructured
}

// limitOfCell bounds a whole cell. It is long because two cores may be busy; no test waits for it to pass.
const limitOfCell = 10 * time.Minute

func newCell(t *testing.T, col column) *cell {
	w := world.Shared(t)
	if col.resource != deployments() {
		staged(t, w)
	}
	c := &cell{T: t, w: w, col: col, steps: threeSteps(), replicas: replicas, before: map[string]*unstructured.Unstructured{}}
	bound, cancel := context.WithTimeout(t.Context(), limitOfCell)
	t.Cleanup(cancel)
	c.bound = bound
	c.namespace()
	c.seen = watched(c)
	return c
}

// namespace creates a namespace for the cell. It outlives the test, because deleting one costs the control plane more
// than a release. At the end, the test checks the audit log of the namespace for breaches of a law. Then it deletes the
// workload, because pods need room, and the Rollout, because each starting executor would reconcile it.
func (c *cell) namespace() {
	c.Helper()
	made, err := c.kube().CoreV1().Namespaces().Create(c.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: c.col.name + "-"}}, metav1.CreateOptions{})
	if err != nil {
		c.Fatal(err)
	}
	c.ns = made.Name
	if c.col.governed {
		c.w.Hub.PermitAll(types.NamespacedName{Namespace: c.ns, Name: "app"})
	}
	c.writes = c.w.Journal(c.ns)
	c.Cleanup(func() {
		c.lawful()
		background := metav1.DeletePropagationBackground
		for _, resource := range []schema.GroupVersionResource{c.col.resource, api.RolloutResource()} {
			err := c.client(resource).Delete(context.WithoutCancel(c.Context()), "app", metav1.DeleteOptions{PropagationPolicy: &background})
			if err != nil && !apierrors.IsNotFound(err) {
				c.Error(err)
			}
		}
	})
}

func (c *cell) patience() context.Context { return c.bound }

// adopted creates all objects and waits until the next change of the workload will be held.
func (c *cell) adopted() {
	c.Helper()
	c.owns()
	c.create(api.RolloutResource(), c.col.rolloutManifest(c.steps))
	c.adopts()
}

// owns creates all objects except the Rollout, and waits until the workload runs.
func (c *cell) owns() {
	c.Helper()
	c.create(services(), serviceManifest)
	c.createRoute()
	c.runs(c.col.workloadManifest(c.replicas))
	c.settled("app:1")
	c.note()
}

// createRoute creates the objects that route to the Service or are attached to it.
func (c *cell) createRoute() {
	c.Helper()
	for _, o := range c.col.routeObjects() {
		c.create(o.resource, o.manifest)
	}
}

// adopts waits until the next change of the workload will be held.
func (c *cell) adopts() {
	c.Helper()
	c.await("Healthy", world.Healthy)
	c.object(c.col.resource, "app", "adopted", func(u *unstructured.Unstructured) bool {
		return u != nil && u.GetAnnotations()[api.AnnotationRollout] == "app"
	})
}

// note stores the current state of the owner's objects.
func (c *cell) note() {
	c.Helper()
	for _, kind := range c.owned() {
		c.before[kind.Resource] = c.get(kind, "app")
	}
}

// owned returns the kinds, except the Rollout, that have one object of the owner named app.
func (c *cell) owned() []schema.GroupVersionResource {
	list := []schema.GroupVersionResource{c.col.resource, services()}
	for _, o := range c.col.routeObjects() {
		list = append(list, o.resource)
	}
	return list
}

func (c *cell) client(kind schema.GroupVersionResource) dynamic.ResourceInterface {
	c.Helper()
	client, err := dynamic.NewForConfig(c.w.Config)
	if err != nil {
		c.Fatal(err)
	}
	if kind == nodes() {
		return client.Resource(kind)
	}
	return client.Resource(kind).Namespace(c.ns)
}

func (c *cell) kube() kubernetes.Interface {
	c.Helper()
	client, err := kubernetes.NewForConfig(c.w.Config)
	if err != nil {
		c.Fatal(err)
	}
	return client
}

func (c *cell) create(kind schema.GroupVersionResource, manifest string) {
	c.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(manifest), &u.Object); err != nil {
		c.Fatal(err)
	}
	if _, err := c.client(kind).Create(c.Context(), u, metav1.CreateOptions{FieldManager: "tester"}); err != nil {
		c.Fatal(err)
	}
}

// get reads an object. It returns nil if the object does not exist.
func (c *cell) get(kind schema.GroupVersionResource, name string) *unstructured.Unstructured {
	c.Helper()
	u, err := c.client(kind).Get(c.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		c.Fatal(err)
	}
	return u
}

func (c *cell) patch(kind schema.GroupVersionResource, name, body string, sub ...string) error {
	client := c.client(kind)
	return workload.OnceKnown(c.Context(), func(ctx context.Context) error {
		_, err := client.Patch(ctx, name, types.MergePatchType, []byte(body), metav1.PatchOptions{FieldManager: "tester"}, sub...)
		return err
	})
}

// spec changes the Rollout's spec.
func (c *cell) spec(body string) {
	c.Helper()
	if err := c.patch(api.RolloutResource(), "app", `{"spec":`+body+`}`); err != nil {
		c.Fatal(err)
	}
}

// object waits until an object is as wanted, and returns it. The predicate gets nil if the object does not exist.
func (c *cell) object(kind schema.GroupVersionResource, name, want string, reached func(*unstructured.Unstructured) bool) *unstructured.Unstructured {
	c.Helper()
	u, err := controlplane.AwaitObject(c.bound, c.client(kind), name, reached)
	if err != nil {
		c.Fatalf("%s %s did not get there: %v; wanted %s; it is\n%s", kind.Resource, name, err, want, c.shown(kind, name))
	}
	return u
}

// shown returns the relevant part of an object, for messages.
func (c *cell) shown(kind schema.GroupVersionResource, name string) string {
	u := c.get(kind, name)
	if u == nil {
		return "gone"
	}
	unstructured.RemoveNestedField(u.Object, "metadata", "managedFields")
	if kind.Resource == "rollouts" {
		unstructured.RemoveNestedField(u.Object, "spec")
	}
	text, err := yaml.Marshal(u.Object)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// await waits until the Rollout reaches a goal, and returns it.
func (c *cell) await(want string, goal world.Goal) *api.Rollout {
	c.Helper()
	var r *api.Rollout
	c.object(api.RolloutResource(), "app", want, func(u *unstructured.Unstructured) bool {
		r = c.rollout(u)
		return r != nil && goal(r)
	})
	return r
}

func (c *cell) rollout(u *unstructured.Unstructured) *api.Rollout {
	c.Helper()
	if u == nil {
		return nil
	}
	r := &api.Rollout{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, r); err != nil {
		c.Fatal(err)
	}
	return r
}

// settled waits until all pods of the workload run an image.
func (c *cell) settled(image string) {
	c.Helper()
	c.object(c.col.resource, "app", image+" everywhere", func(u *unstructured.Unstructured) bool {
		return u != nil && templateImage(u) == image && c.col.settled(u)
	})
}

func templateImage(u *unstructured.Unstructured) string {
	return containerImage(u, "spec", "template", "spec", "containers")
}

// change sets the image of the workload's template. It sets the annotation that keeps its pods unready, or removes it.
func (c *cell) change(image, never string) {
	c.Helper()
	body := fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{%q:%s}},"spec":{"containers":[{"name":"c","image":%q}]}}}}`, controlplane.NeverReady, never, image)
	if err := c.patch(c.col.resource, "app", body); err != nil {
		c.Fatal(err)
	}
}

// release changes the image. The limit of the new version becomes step 1.
func (c *cell) release(image string) {
	c.Helper()
	c.allow(image, 1)
	c.change(image, "null")
}

// releaseSick releases a version whose pods get ready only when the witness cures them.
func (c *cell) releaseSick(image string) {
	c.Helper()
	c.allow(image, 1)
	c.change(image, `"true"`)
}

// back returns the workload to its first version, which has no limit of exposure.
func (c *cell) back() {
	c.Helper()
	c.change("app:1", "null")
}

// allow raises the limit of a version's exposure to a step, or removes it after the last step.
func (c *cell) allow(image string, n int) {
	l := limit{none, none}
	if n <= len(c.steps) {
		l = limit{c.steps[n-1].of(c.replicas), c.steps[n-1].traffic}
	}
	c.seen.allow(image, l)
}
