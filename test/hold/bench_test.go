package hold_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/test/controlplane"
)

const (
	holdPolicy  = "../../deploy/policies/hold-deployment.yaml"
	guardPolicy = "../../deploy/policies/guard-deployment.yaml"

	alice    = "alice"
	executor = "system:serviceaccount:sluice-system:sluice-executor"

	// patience bounds a wait for something that takes a second or two, on a busy machine.
	patience = 10 * time.Minute

	originalPaused = api.AnnotationOriginalPrefix + "paused"
	revision       = "deployment.kubernetes.io/revision"
)

// bench is a control plane with the policies in force, and one user of it.
type bench struct {
	*controlplane.Cluster
	user string
	// manager is the field manager of the user's patches.
	manager string
	// deployments is the user's client for the workloads in the default namespace.
	deployments dynamic.ResourceInterface
	// resource is the resource of the workloads: Deployments by default.
	resource schema.GroupVersionResource
	// stopWebhook stops the webhook; nil without one.
	stopWebhook func()
}

// aBench starts a control plane, without the policies.
func aBench(t testing.TB) *bench {
	t.Helper()
	b := &bench{Cluster: controlplane.ForTest(t, controlplane.Options{Nodes: 1})}
	return b.as(t, alice)
}

// as returns the same bench for another user with all rights.
func (b *bench) as(t testing.TB, user string) *bench {
	t.Helper()
	config := rest.CopyConfig(b.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:masters"}}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	resource := b.resource
	if resource.Empty() {
		resource = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	}
	manager := "test"
	if user == executor {
		manager = "sluice"
	}
	return &bench{
		Cluster: b.Cluster, user: user, manager: manager, resource: b.resource, stopWebhook: b.stopWebhook,
		deployments: client.Resource(resource).Namespace("default"),
	}
}

// withPolicies installs both policies and returns when both are in force.
func (b *bench) withPolicies(t testing.TB) *bench {
	t.Helper()
	b.kubectl(t, "", "apply", "-f", holdPolicy, "-f", guardPolicy)
	return b.inForce(t)
}

// inForce waits until a hold and a guard take effect. That is some time after they are stored, and no event reports it.
func (b *bench) inForce(t testing.TB) *bench {
	t.Helper()
	b.create(t, "probe", adopted)
	b.until(t, func() bool {
		options := metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}}
		got, err := b.deployments.Update(t.Context(), manifest(t, "probe", "demo:2"), options)
		return err == nil && paused(got) && got.GetLabels()[api.LabelWorkloadType] != ""
	})
	b.delete(t, "probe")
	return b
}

// until polls, for conditions without an event.
func (b *bench) until(t testing.TB, done func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	for !done() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("hold and guard did not take effect")
		}
	}
}

// manifest returns a user's manifest. It has no fields of Sluice.
func manifest(t testing.TB, name, image string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	text, err := yaml.YAMLToJSON([]byte(manifestText(name, image)))
	if err == nil {
		err = u.UnmarshalJSON(text)
	}
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func manifestText(name, image string) string {
	return fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata:
  name: %[1]s
spec:
  replicas: 1
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      containers: [{name: main, image: "%[2]s", ports: [{containerPort: 80}, {containerPort: 443}]}]
`, name, image)
}

// adopted marks an object as an executor does.
func adopted(u *unstructured.Unstructured) {
	u.SetLabels(map[string]string{api.LabelWorkloadType: "deployment"})
	u.SetAnnotations(map[string]string{api.AnnotationRollout: u.GetName()})
}

// objectName returns a name that no other test uses, and that is valid as a label.
func objectName(t testing.TB) string {
	sum := fnv.New64a()
	sum.Write([]byte(t.Name()))
	return fmt.Sprintf("demo-%x", sum.Sum64())
}

// create creates a Deployment of image demo:1, after it has applied each change to it.
func (b *bench) create(t testing.TB, name string, change ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	t.Helper()
	u := manifest(t, name, "demo:1")
	for _, c := range change {
		c(u)
	}
	created, err := b.deployments.Create(t.Context(), u, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created
}

// hold creates a Deployment, adopts it as an executor does, and changes its image to demo:2. It returns the Deployment
// when the controller manager has seen all of that. From then on, only the test writes to it.
func (b *bench) hold(t testing.TB, name string) *unstructured.Unstructured {
	t.Helper()
	b.create(t, name)
	created := b.as(t, executor).patch(t, name, types.MergePatchType, adoption(name))
	b.await(t, created, "available", func(u *unstructured.Unstructured) bool {
		available, _, _ := unstructured.NestedInt64(u.Object, "status", "availableReplicas")
		return available == 1 && observed(u)
	})
	held := b.patch(t, name, types.StrategicMergePatchType, `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"demo:2"}]}}}}`)
	if !isHeld(held) {
		t.Fatalf("%s is not held by its new image:\n%v", name, held.Object)
	}
	return b.await(t, held, "seen as paused", func(u *unstructured.Unstructured) bool {
		return observed(u) && progressing(u) == "DeploymentPaused"
	})
}

func (b *bench) patch(t testing.TB, name string, kind types.PatchType, body string, subresources ...string) *unstructured.Unstructured {
	t.Helper()
	options := metav1.PatchOptions{FieldManager: b.manager}
	patched, err := b.deployments.Patch(t.Context(), name, kind, []byte(body), options, subresources...)
	if err != nil {
		t.Fatal(err)
	}
	return patched
}

func (b *bench) get(t testing.TB, name string) *unstructured.Unstructured {
	t.Helper()
	u, err := b.deployments.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func (b *bench) delete(t testing.TB, name string) {
	t.Helper()
	if err := b.deployments.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil && !errors.IsNotFound(err) {
		t.Fatal(err)
	}
}

// kubectl runs kubectl as the user.
func (b *bench) kubectl(t testing.TB, stdin string, args ...string) string {
	t.Helper()
	out, err := b.tryKubectl(t.Context(), stdin, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (b *bench) tryKubectl(ctx context.Context, stdin string, args ...string) (string, error) {
	args = append([]string{"--as", b.user, "--as-group", "system:masters"}, args...)
	return b.KubectlStdin(ctx, stdin, args...)
}

// edit runs kubectl edit as the user, with a command in place of an editor.
func (b *bench) edit(t testing.TB, editor, name string) {
	t.Helper()
	if _, err := b.KubectlEnv(t.Context(), []string{"KUBE_EDITOR=" + editor}, "--as", b.user, "--as-group", "system:masters", "edit", "deployment/"+name); err != nil {
		t.Fatal(err)
	}
}

// await returns the first version of an object, from the one given, that ok accepts.
func (b *bench) await(t testing.TB, from *unstructured.Unstructured, what string, ok func(*unstructured.Unstructured) bool) *unstructured.Unstructured {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	watch, err := controlplane.Watch(ctx, b.deployments, watchOf(from))
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	for event := range watch.ResultChan() {
		if u, is := event.Object.(*unstructured.Unstructured); is && ok(u) {
			return u
		}
	}
	t.Fatalf("%s did not become %s", from.GetName(), what)
	return nil
}

func watchOf(from *unstructured.Unstructured) metav1.ListOptions {
	return metav1.ListOptions{FieldSelector: "metadata.name=" + from.GetName(), ResourceVersion: from.GetResourceVersion()}
}

func paused(u *unstructured.Unstructured) bool {
	value, _, _ := unstructured.NestedBool(u.Object, "spec", "paused")
	return value
}

// isHeld reports whether an object has all fields that hold it.
func isHeld(u *unstructured.Unstructured) bool {
	annotations := u.GetAnnotations()
	return paused(u) && u.GetLabels()[api.LabelWorkloadType] == "deployment" &&
		annotations[api.AnnotationRollout] == u.GetName() &&
		annotations[api.AnnotationInProgressing] == fmt.Sprintf(`{"rolloutName":%q}`, u.GetName())
}

func image(u *unstructured.Unstructured) string {
	containers, _, _ := unstructured.NestedSlice(u.Object, "spec", "template", "spec", "containers")
	if len(containers) != 1 {
		return ""
	}
	value, _, _ := unstructured.NestedString(containers[0].(map[string]any), "image")
	return value
}

func observed(u *unstructured.Unstructured) bool {
	generation, _, _ := unstructured.NestedInt64(u.Object, "status", "observedGeneration")
	return generation == u.GetGeneration()
}

// progressing returns the reason of the condition Progressing.
func progressing(u *unstructured.Unstructured) string {
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range conditions {
		if condition, is := c.(map[string]any); is && condition["type"] == "Progressing" {
			reason, _ := condition["reason"].(string)
			return reason
		}
	}
	return ""
}
