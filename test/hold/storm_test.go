package hold_test

import (
	"fmt"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// attack is one write of a user who does not know of a hold, or wants to end it.
type attack func(b *bench, t testing.TB, name string, n int) error

func patchOf(kind types.PatchType, body string) attack {
	return func(b *bench, t testing.TB, name string, n int) error {
		_, err := b.deployments.Patch(t.Context(), name, kind, []byte(body), metav1.PatchOptions{FieldManager: "test"})
		return err
	}
}

func newImage(b *bench, t testing.TB, name string, n int) error {
	body := fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"demo:%d"}]}}}}`, n)
	return patchOf(types.StrategicMergePatchType, body)(b, t, name, n)
}

func replace(b *bench, t testing.TB, name string, n int) error {
	_, err := b.deployments.Update(t.Context(), manifest(t, name, fmt.Sprintf("demo:%d", n)), metav1.UpdateOptions{})
	return err
}

func apply(b *bench, t testing.TB, name string, n int) error {
	options := metav1.ApplyOptions{FieldManager: "gitops", Force: true}
	_, err := b.deployments.Apply(t.Context(), name, manifest(t, name, fmt.Sprintf("demo:%d", n)), options)
	return err
}

func attacks() []attack {
	return []attack{
		newImage, replace, apply,
		patchOf(types.MergePatchType, `{"spec":{"paused":false}}`),
		patchOf(types.MergePatchType, `{"spec":{"paused":null},"metadata":{"annotations":null}}`),
		patchOf(types.MergePatchType, `{"metadata":{"annotations":{"rollouts.kruise.io/in-progressing":null}}}`),
		patchOf(types.MergePatchType, `{"metadata":{"labels":null}}`),
		patchOf(types.JSONPatchType, `[{"op":"add","path":"/metadata/annotations","value":{}}]`),
		patchOf(types.MergePatchType, `{"spec":{"replicas":2}}`),
		patchOf(types.MergePatchType, `{"spec":{"replicas":1}}`),
	}
}

func fiftyWritesAtOnceLeaveNoVersionUnheld(t *testing.T, b *bench) {
	witness := b.watchFrom(t, b.create(t, "storm", adopted))
	var all sync.WaitGroup
	for n := range 50 {
		all.Go(func() {
			write := attacks()[n%len(attacks())]
			if err := write(b, t, "storm", n+2); err != nil && !errors.IsConflict(err) {
				t.Errorf("write %d: %v", n, err)
			}
		})
	}
	all.Wait()
	if versions := witness.testify(t, "demo:1"); len(versions) < 10 {
		t.Errorf("only %d versions were seen", len(versions))
	}
}

func gitOpsActorsNeverLetGo(t *testing.T, b *bench) {
	held := b.hold(t, "gitops")
	witness := b.watchFrom(t, held)
	// Each actor has its own image, so that each write changes the template.
	var all sync.WaitGroup
	for actor, write := range []attack{newImage, replace, apply} {
		all.Go(func() {
			for range 100 {
				if err := write(b, t, "gitops", actor+2); err != nil && !errors.IsConflict(err) {
					t.Errorf("actor %d: %v", actor, err)
					return
				}
			}
		})
	}
	all.Wait()
	if versions := witness.testify(t, "demo:1"); len(versions) < 100 {
		t.Errorf("only %d versions were seen", len(versions))
	}
}

func theSameManifestAgainAndAgainWritesNothing(t *testing.T, b *bench) {
	for name, write := range map[string]attack{"replace": replace, "apply": apply} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := objectName(t)
			before := b.hold(t, object).GetResourceVersion()
			if name == "apply" {
				// The first server-side apply makes the actor the owner of its fields.
				if err := write(b, t, object, 2); err != nil {
					t.Fatal(err)
				}
				before = b.get(t, object).GetResourceVersion()
			}
			for range 50 {
				if err := write(b, t, object, 2); err != nil {
					t.Fatal(err)
				}
			}
			if after := b.get(t, object).GetResourceVersion(); after != before {
				t.Errorf("the resourceVersion went from %s to %s", before, after)
			}
		})
	}
}
