package hold_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/hold"
	cases "sluice.dev/sluice/test/hold"
)

func TestItDecidesAsTheTableSays(t *testing.T) {
	t.Parallel()
	decideAs(t, cases.Cases(t, "deployment"))
	for _, kind := range cases.Kinds(t) {
		t.Run(kind.Name, func(t *testing.T) {
			t.Parallel()
			decideAs(t, kind.Cases)
		})
	}
}

func decideAs(t *testing.T, table []cases.Case) {
	t.Helper()
	for _, c := range table {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			old, updated := c.Old.DeepCopy(), c.New.DeepCopy()
			r := hold.Request{Operation: hold.Update, Username: c.User, Executor: api.DefaultInstallation().ExecutorUser(), Old: c.Old, New: c.New}
			got := hold.Decide(r)
			if got == nil {
				got = c.New
			} else if cmp.Equal(got.Object, c.New.Object) {
				t.Error("it says that something changes when nothing does")
			}
			if diff := cmp.Diff(said(c.Want), said(got)); diff != "" {
				t.Errorf("decided (+) is not what was wanted (-):\n%s", diff)
			}
			if !cmp.Equal(old, c.Old) || !cmp.Equal(updated, c.New) {
				t.Error("it changed what it was given")
			}
			r.New = got
			if again := hold.Decide(r); again != nil {
				t.Errorf("asked again it decides otherwise:\n%s", cmp.Diff(got.Object, again.Object))
			}
		})
	}
}

// said is the part of an object that a case states. For a Deployment that is taken over, it adds the restored fields where the case leaves them to
// the API server's defaults.
func said(u *unstructured.Unstructured) map[string]any {
	labels, annotations := u.GetLabels(), u.GetAnnotations()
	if len(labels) == 0 {
		labels = nil
	}
	if len(annotations) == 0 {
		annotations = nil
	}
	return map[string]any{"labels": labels, "annotations": annotations, "spec": u.Object["spec"]}
}

func TestItLeavesAloneWhatIsNoUpdateOfAnAdoptedDeployment(t *testing.T) {
	t.Parallel()
	begins := cases.Cases(t, "deployment")[0]
	for name, change := range map[string]func(*hold.Request){
		"a create":       func(r *hold.Request) { r.Operation, r.Old = "CREATE", nil },
		"a delete":       func(r *hold.Request) { r.Operation, r.New = "DELETE", nil },
		"another kind":   func(r *hold.Request) { r.New = r.New.DeepCopy(); r.New.SetKind("ReplicaSet") },
		"another group":  func(r *hold.Request) { r.New = r.New.DeepCopy(); r.New.SetAPIVersion("example.com/v1") },
		"the executor's": func(r *hold.Request) { r.Username = "system:serviceaccount:sluice-system:sluice-executor" },
		"one without labels": func(r *hold.Request) {
			r.Old, r.New = r.Old.DeepCopy(), r.New.DeepCopy()
			r.Old.SetLabels(nil)
			r.New.SetLabels(nil)
		},
	} {
		r := hold.Request{Operation: hold.Update, Username: begins.User, Executor: api.DefaultInstallation().ExecutorUser(), Old: begins.Old, New: begins.New}
		if hold.Decide(r) == nil {
			t.Fatal("the case changes nothing by itself")
		}
		if change(&r); hold.Decide(r) != nil {
			t.Errorf("%s: it decides on it", name)
		}
	}
}
