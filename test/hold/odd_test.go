package hold_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
)

func set(value any, path ...string) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) { _ = unstructured.SetNestedField(u.Object, value, path...) }
}

func remove(path ...string) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) { unstructured.RemoveNestedField(u.Object, path...) }
}

// many adds many small annotations.
func many(u *unstructured.Unstructured) {
	annotations := map[string]string{}
	for n := range 10000 {
		annotations[fmt.Sprintf("a%05x", n)] = ""
	}
	u.SetAnnotations(annotations)
}

func manyLabels(u *unstructured.Unstructured) {
	labels := map[string]string{api.LabelWorkloadType: "deployment"}
	for n := range 10000 {
		labels[fmt.Sprintf("a%05x", n)] = ""
	}
	u.SetLabels(labels)
}

func manyTemplateLabels(u *unstructured.Unstructured) {
	for n := range 3000 {
		_ = unstructured.SetNestedField(u.Object, "", "spec", "template", "metadata", "labels", fmt.Sprintf("a%05x", n))
	}
}

func large(u *unstructured.Unstructured) {
	u.SetAnnotations(map[string]string{"large": strings.Repeat("x", 255<<10)})
}

func largeTemplate(u *unstructured.Unstructured) {
	environment := []any{}
	for n := range 4000 {
		environment = append(environment, map[string]any{"name": fmt.Sprintf("VARIABLE_%d", n), "value": strings.Repeat("x", 100)})
	}
	_ = unstructured.SetNestedSlice(u.Object, []any{map[string]any{"name": "main", "image": "demo:1", "env": environment}},
		"spec", "template", "spec", "containers")
}

func thePoliciesRefuseNothing(t *testing.T, b *bench) {
	for name, c := range map[string]struct {
		old, update func(*unstructured.Unstructured)
		// invalid is the error of the API server's own validation of the update.
		invalid string
	}{
		"no replicas":               {update: remove("spec", "replicas")},
		"replicas null":             {update: set(nil, "spec", "replicas")},
		"annotations null":          {update: set(nil, "metadata", "annotations")},
		"annotations empty":         {update: set(map[string]any{}, "metadata", "annotations")},
		"labels empty":              {update: set(map[string]any{}, "metadata", "labels")},
		"paused null":               {update: set(nil, "spec", "paused")},
		"one large annotation":      {old: large, update: large},
		"many annotations":          {old: many, update: many},
		"many annotations dropped":  {old: many, update: remove("metadata", "annotations")},
		"many labels":               {old: manyLabels, update: manyLabels},
		"many labels dropped":       {old: manyLabels, update: remove("metadata", "labels")},
		"many template labels":      {update: manyTemplateLabels},
		"a large template":          {old: largeTemplate, update: largeTemplate},
		"a large template changed":  {old: largeTemplate, update: remove("spec", "replicas")},
		"template annotations null": {update: set(nil, "spec", "template", "metadata", "annotations")},
		"odd keys":                  {update: set(map[string]any{"a~b/c.d": "~1\"\\\n", "é": "x"}, "metadata", "annotations"), invalid: "name part must consist"},
		"odd values":                {update: set(map[string]any{"a.b/c.d": "~1\"\\\n\u00e9"}, "metadata", "annotations")},
		"template without metadata": {update: remove("spec", "template", "metadata"), invalid: "`selector` does not match template"},
		"template null":             {update: set(nil, "spec", "template"), invalid: "`selector` does not match template"},
		"no spec":                   {update: remove("spec"), invalid: "spec.selector: Required value"},
		"negative replicas":         {update: set(int64(-1), "spec", "replicas"), invalid: "must be greater than or equal to 0"},
	} {
		for state, marks := range map[string]map[string]string{
			"adopted": {api.AnnotationRollout: "demo"},
			"held":    {api.AnnotationRollout: "demo", api.AnnotationInProgressing: `{"rolloutName":"demo"}`, originalPaused: "true"},
			"parked":  parkedMarks("demo"),
		} {
			t.Run(name+" "+state, func(t *testing.T) {
				t.Parallel()
				object := objectName(t)
				b.create(t, object, func(u *unstructured.Unstructured) {
					adopted(u)
					if c.old != nil {
						c.old(u)
					}
					annotations := u.GetAnnotations()
					for key, value := range marks {
						annotations[key] = value
					}
					u.SetAnnotations(annotations)
					_ = unstructured.SetNestedField(u.Object, state != "adopted", "spec", "paused")
					if state == "parked" {
						parkedSpec(u)
					}
				})
				update := manifest(t, object, "demo:1")
				c.update(update)
				got, err := b.deployments.Update(t.Context(), update, metav1.UpdateOptions{})
				// A busy server may give up on a large object after half a minute. That is not an answer of a policy.
				for errors.IsTimeout(err) && t.Context().Err() == nil {
					got, err = b.deployments.Update(t.Context(), update, metav1.UpdateOptions{})
				}
				if c.invalid != "" {
					if !errors.IsInvalid(err) || !strings.Contains(err.Error(), c.invalid) || strings.Contains(err.Error(), "sluice-") {
						t.Errorf("the answer is not %q but %v", c.invalid, err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if got.GetAnnotations()[api.AnnotationRollout] != "demo" || got.GetLabels()[api.LabelWorkloadType] != "deployment" {
					t.Errorf("the marks are lost")
				}
				if state != "adopted" && !paused(got) {
					t.Errorf("the hold is lost")
				}
				if seconds, _, _ := unstructured.NestedInt64(got.Object, "spec", "minReadySeconds"); state == "parked" && seconds != 2147483646 {
					t.Errorf("minReadySeconds is %d", seconds)
				}
			})
		}
	}
}

func theExecutorLetsGoAndUnmarks(t *testing.T, b *bench) {
	held := b.hold(t, "let-go")
	by := b.as(t, executor)
	got := by.patch(t, "let-go", types.MergePatchType, `{"spec":{"paused":null},"metadata":{
		"labels":{"rollouts.kruise.io/workload-type":null},
		"annotations":{"rollouts.kruise.io/in-progressing":null,"sluice.dev/rollout":null}}}`)
	if _, is := got.GetLabels()[api.LabelWorkloadType]; is || paused(got) || got.GetAnnotations()[api.AnnotationRollout] != "" ||
		got.GetAnnotations()[api.AnnotationInProgressing] != "" {
		t.Errorf("the executor could not let go:\n%v", got.Object)
	}
	b.await(t, held, "rolled out", func(u *unstructured.Unstructured) bool {
		return observed(u) && progressing(u) == "NewReplicaSetAvailable" && !paused(u)
	})
}

func anUnadoptedDeploymentIsNotTouched(t *testing.T, b *bench) {
	b.create(t, "free", set("x", "metadata", "annotations", originalPaused))
	update := manifest(t, "free", "demo:2")
	update.SetAnnotations(map[string]string{originalPaused: "true", api.AnnotationInProgressing: "{}", api.AnnotationEpoch: "1"})
	got, err := b.deployments.Update(t.Context(), update, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"labels": map[string]string(nil), "annotations": update.GetAnnotations(), "paused": false}
	if diff := cmp.Diff(want, map[string]any{"labels": got.GetLabels(), "annotations": got.GetAnnotations(), "paused": paused(got)}); diff != "" {
		t.Errorf("stored (+) is not what was sent (-):\n%s", diff)
	}
}

func subresourcesAndDeleteGoByUntouched(t *testing.T, b *bench) {
	held := b.hold(t, "sub")
	b.patch(t, "sub", types.MergePatchType, `{"spec":{"replicas":2}}`, "scale")
	b.patch(t, "sub", types.MergePatchType, `{"status":{"collisionCount":3}}`, "status")
	got := b.await(t, held, "scaled and with a status of the test's", func(u *unstructured.Unstructured) bool {
		replicas, _, _ := unstructured.NestedInt64(u.Object, "spec", "replicas")
		collisions, _, _ := unstructured.NestedInt64(u.Object, "status", "collisionCount")
		return replicas == 2 && collisions == 3
	})
	if !isHeld(got) {
		t.Errorf("it is held no more:\n%v", got.Object)
	}
	b.delete(t, "sub")
	if _, err := b.deployments.Get(t.Context(), "sub", metav1.GetOptions{}); !errors.IsNotFound(err) {
		t.Errorf("it is still there: %v", err)
	}
}

// The API server itself refuses a value that the executor could not restore at the end of a release. Otherwise the
// write would pass unchanged and release the workload.
func whatCannotBeGivenBackIsRefusedAtOnce(t *testing.T, b *bench) {
	for name, c := range map[string]struct{ body, says string }{
		"negative seconds":        {`{"spec":{"minReadySeconds":-1}}`, "must be greater than or equal to 0"},
		"a negative deadline":     {`{"spec":{"progressDeadlineSeconds":-1}}`, "must be greater than or equal to 0"},
		"seconds over a deadline": {`{"spec":{"minReadySeconds":700}}`, "must be greater than minReadySeconds"},
		"a deadline of nothing":   {`{"spec":{"progressDeadlineSeconds":0}}`, "must be greater than minReadySeconds"},
		"seconds over a deadline by hand": {`{"metadata":{"annotations":{"sluice.dev/original.minReadySeconds":"700"}}}`,
			"must be greater than minReadySeconds"},
		"no budget": {`{"spec":{"strategy":{"rollingUpdate":{"maxSurge":"0%","maxUnavailable":0}}}}`, "may not be 0"},
		"no budget by hand": {`{"metadata":{"annotations":{"sluice.dev/original.maxSurge":"0","sluice.dev/original.maxUnavailable":"00%"}}}`,
			"may not be 0"},
		"a negative surge":        {`{"spec":{"strategy":{"rollingUpdate":{"maxSurge":-1}}}}`, "must be greater than or equal to 0"},
		"a surge that is a word":  {`{"spec":{"strategy":{"rollingUpdate":{"maxSurge":"half"}}}}`, "a valid percent string"},
		"a surge of no words":     {`{"spec":{"strategy":{"rollingUpdate":{"maxSurge":""}}}}`, "a valid percent string"},
		"a surge in quotes":       {`{"spec":{"strategy":{"rollingUpdate":{"maxSurge":"1"}}}}`, "a valid percent string"},
		"a budget over a hundred": {`{"spec":{"strategy":{"rollingUpdate":{"maxUnavailable":"101%"}}}}`, "must not be greater than 100%"},
		"a budget over the moon":  {`{"spec":{"strategy":{"rollingUpdate":{"maxUnavailable":"99999999999999999999999%"}}}}`, "must not be greater than 100%"},
		"an unknown type":         {`{"spec":{"strategy":{"type":"Sometimes"}}}`, "supported values"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := objectName(t)
			before := b.park(t, object, parkedAtRest)
			_, err := b.deployments.Patch(t.Context(), object, types.MergePatchType, []byte(c.body), metav1.PatchOptions{})
			if !errors.IsInvalid(err) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "sluice-") {
				t.Errorf("the answer is not %q but %v", c.says, err)
			}
			if diff := cmp.Diff(decided(before), decided(b.get(t, object))); diff != "" {
				t.Errorf("it was changed all the same:\n%s", diff)
			}
		})
	}
}
