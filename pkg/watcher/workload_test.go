package watcher

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/workload/kinds"
)

const restingStatefulSet = `
apiVersion: apps/v1
kind: StatefulSet
metadata:
  {name: web, namespace: shop, uid: u, generation: 4, labels: {rollouts.kruise.io/workload-type: statefulset}, annotations: {sluice.dev/rollout: web}}
spec:
  replicas: 4
  selector: {matchLabels: {app: web}}
  updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 0}}
  template: {spec: {containers: [{name: c, image: "web:1"}]}}
status: {observedGeneration: 4, replicas: 4, updatedReplicas: 3, readyReplicas: 3, availableReplicas: 2, currentRevision: web-1, updateRevision: web-2}
`

// heldStatefulSet is a StatefulSet whose pods a release replaces.
func heldStatefulSet() string {
	return strings.NewReplacer("{sluice.dev/rollout: web}", "{sluice.dev/rollout: web, rollouts.kruise.io/in-progressing: x, sluice.dev/original.partition: ''}",
		"partition: 0", "partition: 3").Replace(restingStatefulSet)
}

func TestChangesOfAWorkloadThatIsNoDeployment(t *testing.T) {
	t.Parallel()
	status := func(field string, n int64) change { return set(n, "status", field) }
	check(t, workloadFacts, restingStatefulSet, wakes{
		"a new version":                        {set("b", "spec", "template", "spec", "hostname"), atOnce},
		"it is scaled":                         {set(int64(5), "spec", "replicas"), atOnce},
		"another partition":                    {set(int64(1), "spec", "updateStrategy", "rollingUpdate", "partition"), atOnce},
		"it waits to be deleted pod by pod":    {set("OnDelete", "spec", "updateStrategy", "type"), atOnce},
		"another release id":                   {set("7", "metadata", "annotations", api.AnnotationRolloutID), atOnce},
		"its mark taken off":                   {unset("metadata", "annotations"), atOnce},
		"its type taken off":                   {unset("metadata", "labels"), atOnce},
		"one more pod is available":            {status("availableReplicas", 3), soon},
		"pods that are ready but not for long": {status("readyReplicas", 4), never},
		"all pods updated, too few available":  {status("updatedReplicas", 4), atOnce},
		"all pods updated, not yet observed":   {all(set(int64(5), "metadata", "generation"), status("updatedReplicas", 4)), soon},
		"a label":                              {set("b", "metadata", "labels", "a"), never},
		"managed fields":                       {set([]any{}, "metadata", "managedFields"), never},
		"its number of volumes' templates":     {set([]any{}, "spec", "volumeClaimTemplates"), never},
	})
	check(t, workloadFacts, strings.Replace(restingStatefulSet, "updatedReplicas: 3", "updatedReplicas: 4", 1), wakes{
		"all pods updated, and all but one available": {status("availableReplicas", 3), atOnce},
		"all pods updated, and fewer available":       {status("availableReplicas", 1), soon},
	})
	check(t, workloadFacts, heldStatefulSet(), wakes{
		"one more pod is ready while a release is on":          {status("readyReplicas", 4), atOnce},
		"one more pod is available while a release is on":      {status("availableReplicas", 3), atOnce},
		"one more pod is updated while a release is on":        {status("updatedReplicas", 4), atOnce},
		"its controller has seen it while a release is on":     {set(int64(3), "status", "observedGeneration"), atOnce},
		"its stable revision is another one":                   {set("web-2", "status", "currentRevision"), atOnce},
		"one pod for another is ready, where its kind says it": {status("updatedReadyReplicas", 1), atOnce},
		"its conditions while a release is on":                 {set([]any{}, "status", "conditions"), never},
	})
}

func TestAWorkloadRunsItsVersionEverywhere(t *testing.T) {
	t.Parallel()
	const everywhere, available = "runs its version everywhere", "runs its version everywhere, available"
	for sentence, c := range map[string]struct {
		text string
		want []string
	}{
		"a StatefulSet with all but one pod available": {
			`{apiVersion: apps/v1, kind: StatefulSet, spec: {replicas: 5}, status: {replicas: 5, updatedReplicas: 5, availableReplicas: 4}}`, []string{everywhere, available},
		},
		"a StatefulSet with two pods that are not": {
			`{apiVersion: apps/v1, kind: StatefulSet, spec: {replicas: 5}, status: {replicas: 5, updatedReplicas: 5, availableReplicas: 3}}`, []string{everywhere},
		},
		"a StatefulSet that says how many may be missing": {
			`{apiVersion: apps/v1, kind: StatefulSet, spec: {replicas: 5, updateStrategy: {rollingUpdate: {maxUnavailable: 50%}}}, status: {replicas: 5, updatedReplicas: 5, availableReplicas: 3}}`, []string{everywhere, available},
		},
		"a StatefulSet of which less than one may be missing, which is one": {
			`{apiVersion: apps/v1, kind: StatefulSet, spec: {replicas: 5, updateStrategy: {rollingUpdate: {maxUnavailable: 10%}}}, status: {replicas: 5, updatedReplicas: 5, availableReplicas: 4}}`, []string{everywhere, available},
		},
		"a StatefulSet whose owner keeps two pods back": {
			`{apiVersion: apps/v1, kind: StatefulSet, spec: {replicas: 5, updateStrategy: {rollingUpdate: {partition: 2}}}, status: {replicas: 5, updatedReplicas: 3, availableReplicas: 5}}`, []string{everywhere, available},
		},
		"a StatefulSet that says nothing of replicas": {
			`{apiVersion: apps/v1, kind: StatefulSet, status: {replicas: 1, updatedReplicas: 1, availableReplicas: 1}}`, []string{everywhere, available},
		},
		"a CloneSet of which a fifth is missing": {
			`{apiVersion: apps.kruise.io/v1alpha1, kind: CloneSet, spec: {replicas: 10}, status: {replicas: 10, updatedReplicas: 10, availableReplicas: 8}}`, []string{everywhere, available},
		},
		"a CloneSet of which more are": {
			`{apiVersion: apps.kruise.io/v1alpha1, kind: CloneSet, spec: {replicas: 10}, status: {replicas: 10, updatedReplicas: 10, availableReplicas: 7}}`, []string{everywhere},
		},
		"a CloneSet that keeps a share back, rounded up": {
			`{apiVersion: apps.kruise.io/v1alpha1, kind: CloneSet, spec: {replicas: 5, updateStrategy: {partition: 50%}}, status: {replicas: 5, updatedReplicas: 2, availableReplicas: 5}}`, []string{everywhere, available},
		},
		"a CloneSet with an old pod too many": {
			`{apiVersion: apps.kruise.io/v1alpha1, kind: CloneSet, spec: {replicas: 5}, status: {replicas: 6, updatedReplicas: 5, availableReplicas: 6}}`, nil,
		},
		"a DaemonSet on all of its nodes": {
			`{apiVersion: apps/v1, kind: DaemonSet, status: {desiredNumberScheduled: 3, currentNumberScheduled: 3, updatedNumberScheduled: 3, numberAvailable: 3}}`, []string{everywhere, available},
		},
		"a DaemonSet with an old pod": {
			`{apiVersion: apps/v1, kind: DaemonSet, status: {desiredNumberScheduled: 3, currentNumberScheduled: 3, updatedNumberScheduled: 2, numberAvailable: 3}}`, nil,
		},
		"one whose controller has not looked yet": {
			`{apiVersion: apps/v1, kind: StatefulSet, metadata: {generation: 2}, spec: {replicas: 1}, status: {observedGeneration: 1, replicas: 1, updatedReplicas: 1, availableReplicas: 1}}`, nil,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, call := range factOf(t, workloadFacts, read(t, c.text)).calls {
				if strings.HasPrefix(call, "runs") {
					got = append(got, call)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEveryKindOfTheTableIsCountedByItsOwnFields(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds.All() {
		t.Run(kind.GroupKind.String(), func(t *testing.T) {
			t.Parallel()
			counted := map[string]int64{kind.Status.Total: 7, kind.Status.Updated: 5, kind.Status.Ready: 4, kind.Status.Available: 3}
			u := &unstructured.Unstructured{Object: map[string]any{}}
			u.SetGroupVersionKind(kind.GroupKind.WithVersion(kind.Versions[0]))
			for field, n := range counted {
				_ = unstructured.SetNestedField(u.Object, n, "status", field)
			}
			_ = unstructured.SetNestedField(u.Object, int64(6), kind.WantedPath()...)
			_ = unstructured.SetNestedField(u.Object, "50%", kind.Unavailable.ObjectPath()...)
			got := countsOf(u)
			want := counts{replicas: 6, total: 7, updated: 5, ready: 4, available: 3, maxUnavailable: 3, observed: true}
			if got != want {
				t.Errorf("the counts are %+v, want %+v", got, want)
			}
		})
	}
}

// The workload of the Rollout of the other tests, of another kind.
func rolloutOf(apiVersion, kind string) string {
	return strings.NewReplacer("apiVersion: apps/v1, kind: Deployment", "apiVersion: "+apiVersion+", kind: "+kind, "      enableExtraWorkloadForCanary: true\n", "").Replace(pausedRollout)
}

func TestTheIndexKnowsWorkloadsByTheirKinds(t *testing.T) {
	t.Parallel()
	x := newIndex()
	x.putDependencies(key("deployed"), dependenciesIn(t, pausedRollout))
	x.putDependencies(key("native"), dependenciesIn(t, rolloutOf("apps/v1", "StatefulSet")))
	x.putDependencies(key("advanced"), dependenciesIn(t, rolloutOf("apps.kruise.io/v1beta1", "StatefulSet")))
	for on, want := range map[object]string{
		{"apps", "Deployment", key("web")}:            "deployed",
		{"apps", "StatefulSet", key("web")}:           "native",
		{"apps.kruise.io", "StatefulSet", key("web")}: "advanced",
		{"apps", "Deployment", key("web-canary")}:     "deployed",
	} {
		var got []string
		for _, name := range x.dependentsOf(on) {
			got = append(got, name.Name)
		}
		if diff := cmp.Diff([]string{want}, got); diff != "" {
			t.Errorf("who depends on %v (-want +got):\n%s", on, diff)
		}
	}
	if native := x.rollouts[key("native")]; !native.namesInstallableKind() { // its VirtualService
		t.Error("a gateway kind may not come and go")
	}
	bare := dependenciesIn(t, strings.Split(rolloutOf("apps/v1", "StatefulSet"), "      trafficRoutings:")[0])
	if bare.namesInstallableKind() || len(bare.refs) != 1 || !bare.refs[0].workload {
		t.Errorf("a StatefulSet alone is watched as %+v", bare.refs)
	}
}

func TestMarksOfWorkloadsOfOneNameAreToldApart(t *testing.T) {
	t.Parallel()
	x := newIndex()
	deployment, statefulSet := object{"apps", "Deployment", key("web")}, object{"apps", "StatefulSet", key("web")}
	if len(x.setClaims(deployment, key("gone")))+len(x.setClaims(statefulSet, key("lost"))) < 2 {
		t.Error("a mark of a Rollout that does not exist is nobody's business")
	}
	x.setClaims(deployment)
	if got := x.orphanedOwners(); len(got) != 1 || got[0] != key("lost") {
		t.Errorf("left are the marks of %v", got)
	}
	x.putDependencies(key("web"), dependenciesIn(t, pausedRollout))
	if got := x.setClaims(object{"kuma.io", "TrafficRoute", types.NamespacedName{Name: "all"}}, key("web"), key("gone")); len(got) != 1 || got[0] != key("gone") {
		t.Errorf("of those that an object lists %v are missing", got)
	}
}
