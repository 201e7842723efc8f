package matrix

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/retry"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/world"
)

// renamed returns a Rollout's manifest with another name.
func renamed(manifest, name string) string {
	return strings.Replace(manifest, "metadata: {name: app}", "metadata: {name: "+name+"}", 1)
}

// rolloutOf waits until the Rollout with a name reaches a goal.
func (c *cell) rolloutOf(name, want string, goal world.Goal) {
	c.Helper()
	c.object(api.RolloutResource(), name, want, func(u *unstructured.Unstructured) bool {
		r := c.rollout(u)
		return r != nil && goal(r)
	})
}

// deleteRollout deletes a Rollout and waits until it is gone.
func (c *cell) deleteRollout(name string) {
	c.Helper()
	c.delete(api.RolloutResource(), name)
}

// deleteWorkload deletes the workload with its pods and waits until it is gone.
func (c *cell) deleteWorkload() {
	c.Helper()
	c.delete(c.col.resource, "app")
}

func (c *cell) delete(kind schema.GroupVersionResource, name string) {
	c.Helper()
	c.deleting(kind, name)
	c.gone(kind, name)
}

// deleting begins to delete an object.
func (c *cell) deleting(kind schema.GroupVersionResource, name string) {
	c.Helper()
	background := metav1.DeletePropagationBackground
	if err := c.client(kind).Delete(c.Context(), name, metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		c.Fatal(err)
	}
}

func (c *cell) gone(kind schema.GroupVersionResource, name string) {
	c.Helper()
	c.object(kind, name, "to be gone", func(u *unstructured.Unstructured) bool { return u == nil })
}

// adoptedBy waits until the workload belongs to a Rollout.
func (c *cell) adoptedBy(name string) {
	c.Helper()
	c.object(c.col.resource, "app", "adopted by "+name, func(u *unstructured.Unstructured) bool {
		return u != nil && u.GetAnnotations()[api.AnnotationRollout] == name
	})
}

// free removes the limit of a version's exposure, because its owner has asked for that.
func (c *cell) free(images ...string) {
	for _, image := range images {
		c.seen.allow(image, limit{none, none})
	}
}

// scale sets the number of pods of the workload. The limit of the version becomes the number that a step allows.
func (c *cell) scale(n int, image string, step int) {
	c.Helper()
	c.replicas = n
	if step > 0 {
		c.allow(image, step)
	}
	if c.col.daemon {
		c.spread(n)
	} else if err := c.patch(c.col.resource, "app", fmt.Sprintf(`{"spec":{"replicas":%d}}`, n)); err != nil {
		c.Fatal(err)
	}
}

// resting waits until the executor has paused a Deployment again, after the step has its pods. If a user scales the
// Deployment up before that, its controller creates only pods of the new version.
func (c *cell) resting() {
	c.Helper()
	if c.col.resource.Resource == "deployments" {
		c.object(c.col.resource, "app", "paused", func(u *unstructured.Unstructured) bool {
			paused, _, _ := unstructured.NestedBool(u.Object, "spec", "paused")
			return paused
		})
	}
}

// replace replaces the workload with the owner's manifest of app:2, which has no fields of Sluice.
func (c *cell) replace() {
	c.Helper()
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		now, manifest := c.get(c.col.resource, "app"), c.before[c.col.resource.Resource].DeepCopy()
		template, _, _ := unstructured.NestedMap(now.Object, "spec", "template")
		if err := unstructured.SetNestedMap(manifest.Object, template, "spec", "template"); err != nil {
			return err
		}
		manifest.SetResourceVersion("")
		if c.col.resource.Group != "apps" {
			manifest.SetResourceVersion(now.GetResourceVersion()) // the API server replaces custom resources only with a resource version
		}
		_, err := c.client(c.col.resource).Update(c.Context(), manifest, metav1.UpdateOptions{FieldManager: "gitops"})
		return err
	})
	if err != nil {
		c.Fatal(err)
	}
}

// kept checks that no pod of a version was replaced since before, a list of UIDs.
func (c *cell) kept(image string, before []string) {
	c.Helper()
	now := c.seen.ids(image)
	for _, uid := range before {
		if !slices.Contains(now, uid) {
			c.Errorf("the pod %s of %s was replaced", uid, image)
		}
	}
}
