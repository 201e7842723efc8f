package hold_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
)

// parking is the executor's write that takes over the speed of a rolling update. The others are its writes while the
// Deployment pauses at a step, rolls and goes back.
const (
	parking = `{"metadata":{"annotations":{"sluice.dev/original.minReadySeconds":"0","sluice.dev/original.progressDeadlineSeconds":"600",
		"sluice.dev/original.maxSurge":"25%","sluice.dev/original.maxUnavailable":"25%"}},
		"spec":{"minReadySeconds":2147483646,"progressDeadlineSeconds":2147483647}}`
	parkedAtRest = `{"spec":{"strategy":{"rollingUpdate":{"maxSurge":0,"maxUnavailable":"50%"}}}}`
	parkedRolls  = `{"spec":{"paused":false,"strategy":{"rollingUpdate":{"maxSurge":1,"maxUnavailable":"50%"}}}}`
	parkedAborts = `{"spec":{"strategy":{"type":"Recreate","rollingUpdate":null}}}`
)

// parkedMarks and parkedSpec set the same values as parts of an object.
func parkedMarks(name string) map[string]string {
	return map[string]string{
		api.AnnotationRollout: name, api.AnnotationInProgressing: fmt.Sprintf(`{"rolloutName":%q}`, name),
		"sluice.dev/original.minReadySeconds": "0", "sluice.dev/original.progressDeadlineSeconds": "600",
		"sluice.dev/original.maxSurge": "25%", "sluice.dev/original.maxUnavailable": "25%",
	}
}

func parkedSpec(u *unstructured.Unstructured) {
	set(int64(2147483646), "spec", "minReadySeconds")(u)
	set(int64(2147483647), "spec", "progressDeadlineSeconds")(u)
	set(map[string]any{"maxSurge": int64(0), "maxUnavailable": "50%"}, "spec", "strategy", "rollingUpdate")(u)
}

// park holds a Deployment of image demo:2 and takes it over.
func (b *bench) park(t testing.TB, name, state string) *unstructured.Unstructured {
	t.Helper()
	b.hold(t, name)
	executor := b.as(t, executor)
	executor.patch(t, name, types.MergePatchType, parking)
	parked := executor.patch(t, name, types.MergePatchType, state)
	return b.await(t, parked, "seen as parked", func(u *unstructured.Unstructured) bool {
		return observed(u) && (paused(u) || rolled(u))
	})
}

// rolled reports that the new pod is ready. It never counts as available.
func rolled(u *unstructured.Unstructured) bool {
	updated, _, _ := unstructured.NestedInt64(u.Object, "status", "updatedReplicas")
	ready, _, _ := unstructured.NestedInt64(u.Object, "status", "readyReplicas")
	return updated == 1 && ready == 2
}

// aParkedDeploymentKeepsItsSpeed sends each write several times. After the first time, the object no longer changes.
func aParkedDeploymentKeepsItsSpeed(t *testing.T, b *bench) {
	for name, w := range map[string]struct {
		args, body string
		// wishes has the values of the manifest or patch that are not the defaults 0, 600, 25% and 25%.
		wishes map[string]string
		// unchanged reports that not even the first write changes the object.
		unchanged bool
		// says is the text of the API server's refusal.
		says string
	}{
		"replace":                         {args: "replace -f {same}", unchanged: true},
		"client-side apply":               {args: "apply -f {same}"},
		"server-side apply":               {args: "apply --server-side --force-conflicts --field-manager=gitops -f {same}"},
		"server-side apply without force": {args: "apply --server-side --field-manager=test -f {same}"},

		"replace with wishes":           {args: "replace -f {wishes}", wishes: allWishes},
		"client-side apply with wishes": {args: "apply -f {wishes}", wishes: allWishes},
		"server-side apply with wishes": {args: "apply --server-side --force-conflicts --field-manager=gitops -f {wishes}", wishes: allWishes},
		"server-side apply with wishes without force": {args: "apply --server-side --field-manager=test -f {wishes}",
			says: "conflicts with \"sluice\""},

		"strategic patch": {args: "patch deployment {name} -p", wishes: map[string]string{"maxSurge": "3"},
			body: `{"spec":{"strategy":{"rollingUpdate":{"maxSurge":3}}}}`},
		"merge patch": {args: "patch deployment {name} --type=merge -p", wishes: map[string]string{"minReadySeconds": "9"},
			body: `{"spec":{"minReadySeconds":9}}`},
		"merge patch of nothing": {args: "patch deployment {name} --type=merge -p",
			body: `{"spec":{"minReadySeconds":null,"progressDeadlineSeconds":null,"strategy":null}}`},
		"JSON patch": {args: "patch deployment {name} --type=json -p", wishes: map[string]string{"progressDeadlineSeconds": "77"},
			body: `[{"op":"replace","path":"/spec/progressDeadlineSeconds","value":77}]`},
		"JSON patch of the strategy": {args: "patch deployment {name} --type=json -p", wishes: map[string]string{"type": "Recreate"},
			body: `[{"op":"replace","path":"/spec/strategy","value":{"type":"Recreate"}}]`},
	} {
		for state, body := range map[string]string{"at rest": parkedAtRest, "rolling": parkedRolls, "aborting": parkedAborts} {
			if state == "aborting" && (w.wishes["type"] != "" || w.says != "") {
				continue // a value that is already there is no wish
			}
			t.Run(name+" "+state, func(t *testing.T) {
				t.Parallel()
				object := objectName(t)
				parked := b.park(t, object, body)
				wish := write{args: w.args, body: w.body, says: w.says}
				files := wishFiles(t, object)
				b.run(t, wish, object, files)
				first := b.get(t, object)
				if diff := cmp.Diff(wished(w.wishes), originals(first)); diff != "" {
					t.Errorf("remembered (+) is not what was asked for (-):\n%s", diff)
				}
				if diff := cmp.Diff(parked.Object["spec"], first.Object["spec"]); diff != "" {
					t.Errorf("the spec was changed:\n%s", diff)
				}
				if w.unchanged && first.GetResourceVersion() != parked.GetResourceVersion() {
					t.Errorf("it was written:\n%s", cmp.Diff(parked.Object, first.Object))
				}
				if !observed(first) {
					first = b.await(t, first, "seen with what was asked for", observed)
				}
				// The API server lists managers by the second in which they wrote, so the list may change its order once.
				versions := map[string]bool{first.GetResourceVersion(): true}
				for range 3 {
					b.run(t, wish, object, files)
					again := b.get(t, object)
					versions[again.GetResourceVersion()] = true
					if diff := cmp.Diff(unmanaged(first), unmanaged(again)); diff != "" {
						t.Errorf("the second time it was changed again:\n%s", diff)
					}
				}
				if len(versions) > 2 || w.unchanged && len(versions) > 1 {
					t.Errorf("it was written %d times", len(versions)-1)
				}
			})
		}
	}
}

func unmanaged(u *unstructured.Unstructured) map[string]any {
	u = u.DeepCopy()
	u.SetManagedFields(nil)
	u.SetResourceVersion("")
	return u.Object
}

var allWishes = map[string]string{"minReadySeconds": "5", "progressDeadlineSeconds": "900", "maxSurge": "3", "maxUnavailable": "1"}

func wished(wishes map[string]string) map[string]string {
	all := map[string]string{"minReadySeconds": "0", "progressDeadlineSeconds": "600", "maxSurge": "25%", "maxUnavailable": "25%"}
	for field, value := range wishes {
		all[field] = value
	}
	return all
}

func originals(u *unstructured.Unstructured) map[string]string {
	all := map[string]string{}
	for _, field := range []string{"minReadySeconds", "progressDeadlineSeconds", "maxSurge", "maxUnavailable", "type"} {
		if value, is := u.GetAnnotations()["sluice.dev/original."+field]; is {
			all[field] = value
		}
	}
	return all
}

// wishFiles writes a manifest without the speed of a rolling update, and one with it.
func wishFiles(t testing.TB, name string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for file, spec := range map[string]string{"same": "", "wishes": `
  minReadySeconds: 5
  progressDeadlineSeconds: 900
  strategy: {rollingUpdate: {maxSurge: 3, maxUnavailable: 1}}
`} {
		path := filepath.Join(t.TempDir(), file+".yaml")
		if err := os.WriteFile(path, []byte(manifestText(name, "demo:2")+spec), 0o600); err != nil {
			t.Fatal(err)
		}
		files["{"+file+"}"] = path
	}
	return files
}

func aParkedEditIsAWish(t *testing.T, b *bench) {
	parked := b.park(t, "edited-parked", parkedAtRest)
	b.edit(t, `sed -i -e "s/ minReadySeconds: .*/ minReadySeconds: 8/" -e "s/maxSurge: 0/maxSurge: 2/"`, "edited-parked")
	got := b.get(t, "edited-parked")
	if diff := cmp.Diff(wished(map[string]string{"minReadySeconds": "8", "maxSurge": "2"}), originals(got)); diff != "" {
		t.Errorf("remembered (+) is not what was asked for (-):\n%s", diff)
	}
	if diff := cmp.Diff(parked.Object["spec"], got.Object["spec"]); diff != "" {
		t.Errorf("the spec was changed:\n%s", diff)
	}
}

// GitOps actors of three kinds, each with its own values for the speed, write against an executor that raises the
// budget.
func gitOpsActorsNeverSpeedUp(t *testing.T, b *bench) {
	witness := b.watchFrom(t, b.park(t, "speed", parkedAtRest))
	files := wishFiles(t, "speed")
	replace := func(ctx int) error {
		_, err := b.deployments.Update(t.Context(), manifest(t, "speed", "demo:2"), metav1.UpdateOptions{})
		return err
	}
	var all sync.WaitGroup
	for _, write := range []func(int) error{
		replace,
		func(int) error { _, err := b.tryKubectl(t.Context(), "", "apply", "-f", files["{wishes}"]); return err },
		func(int) error {
			_, err := b.tryKubectl(t.Context(), "", "apply", "--server-side", "--force-conflicts", "-f", files["{same}"])
			return err
		},
	} {
		all.Go(func() {
			for n := range 20 {
				if err := write(n); err != nil {
					t.Errorf("write %d: %v", n, err)
					return
				}
			}
		})
	}
	all.Go(func() {
		by := b.as(t, executor)
		for n := range 40 {
			by.patch(t, "speed", types.MergePatchType,
				fmt.Sprintf(`{"spec":{"strategy":{"rollingUpdate":{"maxUnavailable":"%d%%"}}}}`, 51+n))
		}
	})
	all.Wait()
	budget := ""
	for _, u := range witness.testify(t, "demo:1") {
		seconds, _, _ := unstructured.NestedInt64(u.Object, "spec", "minReadySeconds")
		deadline, _, _ := unstructured.NestedInt64(u.Object, "spec", "progressDeadlineSeconds")
		surge, _, _ := unstructured.NestedInt64(u.Object, "spec", "strategy", "rollingUpdate", "maxSurge")
		unavailable, _, _ := unstructured.NestedString(u.Object, "spec", "strategy", "rollingUpdate", "maxUnavailable")
		if seconds != 2147483646 || deadline != 2147483647 || surge != 0 || unavailable < budget {
			t.Errorf("version %s has another speed: %v", u.GetResourceVersion(), u.Object["spec"])
		}
		budget = unavailable
	}
}
