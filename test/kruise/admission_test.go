package kruise_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

func TestWhatOpenKruiseRefuses(t *testing.T) {
	t.Parallel()
	workloads := map[schema.GroupVersionResource]*workload{
		cloneSets:            aWorkload(t, plane(t), cloneSets, 1, "replicas: 1"),
		advancedStatefulSets: aWorkload(t, plane(t), advancedStatefulSets, 1, "replicas: 1"),
		advancedDaemonSets:   aWorkload(t, plane(t), advancedDaemonSets, nodes, ""),
	}
	for sentence, test := range map[string]struct {
		resource     schema.GroupVersionResource
		patch, wants string
	}{
		"a CloneSet that may neither surge nor lack a pod": {cloneSets,
			`{spec: {updateStrategy: {maxSurge: 0, maxUnavailable: 0}}}`, "should not both be less than 1"},
		"a CloneSet with a partition below 0": {cloneSets,
			`{spec: {updateStrategy: {partition: -1}}}`, "must be greater than or equal to 0"},
		"an Advanced StatefulSet with a partition in percent": {advancedStatefulSets,
			`{spec: {updateStrategy: {rollingUpdate: {partition: "50%"}}}}`, "cannot unmarshal string"},
		"an Advanced StatefulSet whose pods take more than 300 seconds": {advancedStatefulSets,
			`{spec: {updateStrategy: {rollingUpdate: {minReadySeconds: 301}}}}`, "must be no more than 300 seconds"},
		"an Advanced StatefulSet of OnDelete with parameters": {advancedStatefulSets,
			`{spec: {updateStrategy: {type: OnDelete}}}`, "only allowed for updateStrategy 'RollingUpdate'"},
		"an Advanced DaemonSet with a partition in percent": {advancedDaemonSets,
			`{spec: {updateStrategy: {rollingUpdate: {partition: "50%"}}}}`, "cannot unmarshal string"},
		"an Advanced DaemonSet that may surge and lack a pod": {advancedDaemonSets,
			`{spec: {updateStrategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 1}}}}`, "may not be set when maxUnavailable is non-zero"},
	} {
		t.Run(sentence, func(t *testing.T) {
			data := must(yaml.YAMLToJSON([]byte(test.patch)))(t)
			_, err := workloads[test.resource].dynamic.Patch(t.Context(), name, types.MergePatchType, data, metav1.PatchOptions{})
			if err == nil || !strings.Contains(err.Error(), test.wants) {
				t.Errorf("it was answered with %v, without %q", err, test.wants)
			}
		})
	}
}

// A guard of these fields must treat null, absent and these values alike.
func TestWhatOpenKruisePutsInPlaceOfNull(t *testing.T) {
	t.Parallel()
	for sentence, test := range map[string]struct {
		w     *workload
		patch string
		want  map[string]any
	}{
		"CloneSet": {
			aWorkload(t, plane(t), cloneSets, 1, "replicas: 1"), `{spec: {updateStrategy: null}}`,
			map[string]any{"type": "ReCreate", "partition": int64(0), "maxUnavailable": "20%", "maxSurge": int64(0)},
		},
		"Advanced StatefulSet": {
			aWorkload(t, plane(t), advancedStatefulSets, 1, "replicas: 1"), `{spec: {updateStrategy: {rollingUpdate: null}}}`,
			map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{
				"partition": int64(0), "maxUnavailable": int64(1), "minReadySeconds": int64(0), "podUpdatePolicy": "ReCreate",
			}},
		},
		"Advanced DaemonSet": {
			aWorkload(t, plane(t), advancedDaemonSets, nodes, ""), `{spec: {updateStrategy: {rollingUpdate: null}}}`,
			map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{
				"maxUnavailable": int64(1), "maxSurge": int64(0), "rollingUpdateType": "Standard",
			}},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			test.w.patch(t, test.patch)
			object := must(test.w.dynamic.Get(t.Context(), name, metav1.GetOptions{}))(t)
			got, _, _ := unstructured.NestedMap(object.Object, "spec", "updateStrategy")
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
