package hold_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/hold"
)

// theFunctionDecidesAsThePolicies sends random writes to both.
func theFunctionDecidesAsThePolicies(t *testing.T, b *bench) {
	dice := rand.New(rand.NewPCG(5, 36))
	options := metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}}
	executor := b.as(t, executor)
	refused, changed := 0, 0
	for n := range 300 {
		name := fmt.Sprintf("random-%d", n)
		old := b.create(t, name, anyState(dice))
		update := manifest(t, name, "demo:1")
		anyWrite(dice, old)(update)
		// No policy changes a write of the executor, so this is the update with the API server's defaults.
		sent, err := executor.deployments.Update(t.Context(), update, options)
		got, refusal := b.deployments.Update(t.Context(), update, options)
		if err != nil {
			// The policies may correct an invalid update by restoring fields. Then the two answers cannot be compared.
			refused++
			b.delete(t, name)
			continue
		}
		want := hold.Decide(hold.Request{Operation: hold.Update, Username: alice, Executor: api.DefaultInstallation().ExecutorUser(), Old: old, New: sent})
		if want == nil {
			want = sent
		} else {
			changed++
		}
		if refusal != nil {
			if _, err := executor.deployments.Update(t.Context(), want, options); err == nil {
				t.Errorf("%s: the policies lead to %v, the function does not", name, refusal)
			}
			refused++
		} else if diff := cmp.Diff(decided(want), decided(got)); diff != "" {
			t.Errorf("%s: policies (+) decide otherwise than the function (-):\n%s\nold\n%v\nsent\n%v", name, diff, decided(old), decided(sent))
		}
		b.delete(t, name)
	}
	if changed < 100 || refused > 150 {
		t.Errorf("of 300 writes %d are refused and %d are changed: they show too little", refused, changed)
	}
}

func pick[T any](dice *rand.Rand, of ...T) T { return of[dice.IntN(len(of))] }

// anyState gives an object a random state in which Sluice may have left it.
func anyState(dice *rand.Rand) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) {
		adopted(u)
		annotations := u.GetAnnotations()
		if dice.IntN(4) > 0 {
			annotations[api.AnnotationInProgressing] = `{"rolloutName":"x"}`
			set(dice.IntN(3) > 0, "spec", "paused")(u)
		}
		if dice.IntN(3) > 0 {
			maps.Copy(annotations, parkedMarks(u.GetName()))
			parkedSpec(u)
			if dice.IntN(4) == 0 {
				set(map[string]any{"type": "Recreate"}, "spec", "strategy")(u)
			}
		}
		if dice.IntN(3) == 0 {
			annotations["sluice.dev/original.replicas"] = pick(dice, "2", "4", "odd")
			annotations[api.AnnotationAssignedReplicas] = pick(dice, "1", "4", "odd")
			set(int64(pick(dice, 1, 3, 4)), "spec", "replicas")(u)
		}
		for _, field := range []string{"paused", "type", "maxSurge", "minReadySeconds"} {
			if dice.IntN(5) == 0 {
				annotations["sluice.dev/original."+field] = anyOriginal(dice, field)
			}
		}
		for _, key := range []string{api.AnnotationRolloutID, api.AnnotationStableRolloutID} {
			if dice.IntN(2) == 0 {
				annotations[key] = pick(dice, "v1", "v2", "")
			}
		}
		u.SetAnnotations(annotations)
	}
}

func anyOriginal(dice *rand.Rand, field string) string {
	return map[string]string{
		"paused": pick(dice, "true", "false"), "type": pick(dice, "Recreate", "RollingUpdate"), "maxSurge": pick(dice, "0", "3", "40%"),
		"maxUnavailable": pick(dice, "0", "0%", "2", "100%"), "minReadySeconds": pick(dice, "0", "9", "800"),
		"progressDeadlineSeconds": pick(dice, "0", "10", "900"),
	}[field]
}

// anyWrite makes random changes that a user may make, from the manifest or from the stored object.
func anyWrite(dice *rand.Rand, old *unstructured.Unstructured) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) {
		if dice.IntN(2) == 0 {
			u.Object["spec"] = old.DeepCopy().Object["spec"]
		}
		if dice.IntN(2) == 0 {
			u.SetAnnotations(old.GetAnnotations())
			u.SetLabels(old.GetLabels())
		}
		for _, change := range []func(){
			func() { set(pick(dice, true, false), "spec", "paused")(u) },
			func() { set(int64(pick(dice, 0, 5, 700)), "spec", "minReadySeconds")(u) },
			func() { set(int64(pick(dice, 3, 600, 900)), "spec", "progressDeadlineSeconds")(u) },
			func() {
				set(pick[any](dice, int64(0), int64(3), "0%", "30%"), "spec", "strategy", "rollingUpdate", "maxSurge")(u)
			},
			func() {
				set(pick[any](dice, int64(0), int64(2), "0%", "50%", "100%"), "spec", "strategy", "rollingUpdate", "maxUnavailable")(u)
			},
			func() { set(map[string]any{"type": pick(dice, "Recreate", "RollingUpdate")}, "spec", "strategy")(u) },
			func() { set(int64(pick(dice, 0, 1, 4)), "spec", "replicas")(u) },
			func() { set(pick(dice, "a", "b"), "spec", "template", "metadata", "labels", "tier")(u) },
			func() { set("x", "spec", "template", "metadata", "labels", "pod-template-hash")(u) },
		} {
			if dice.IntN(4) == 0 {
				change()
			}
		}
		annotations := u.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		for _, field := range append(parkableFields(), "paused") {
			if dice.IntN(8) == 0 {
				annotations["sluice.dev/original."+field] = pick(dice, anyOriginal(dice, field), "odd", "")
			}
		}
		if dice.IntN(6) == 0 {
			annotations["sluice.dev/original.replicas"] = pick(dice, "3", "odd", "12345678901", "")
		}
		for key, value := range map[string]string{
			api.AnnotationAssignedReplicas: "5", api.AnnotationRollout: "another", api.AnnotationStableRolloutID: pick(dice, "v1", "v2"),
			api.AnnotationInProgressing: `{"rolloutName":"y"}`, "note": "mine",
		} {
			if dice.IntN(6) == 0 {
				annotations[key] = value
			}
		}
		switch dice.IntN(4) {
		case 0:
			annotations[api.AnnotationRolloutID] = pick(dice, "v1", "v2", "")
		case 1:
			annotations[api.AnnotationRolloutID] = old.GetAnnotations()[api.AnnotationRolloutID]
		}
		u.SetAnnotations(annotations)
	}
}

func parkableFields() []string {
	return []string{"minReadySeconds", "progressDeadlineSeconds", "maxSurge", "maxUnavailable", "type"}
}
