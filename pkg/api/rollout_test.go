package api_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"sluice.dev/sluice/pkg/api"
)

func encode(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestJSONForms(t *testing.T) {
	zero, half := int32(0), intstr.FromString("50%")
	at := metav1.NewMicroTime(time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC))
	cases := map[string]struct {
		value any
		want  string
	}{
		"a step that waits for approval has no pause": {
			api.Step{Replicas: &half}, `{"replicas":"50%"}`},
		"a pause of 0 seconds is not the same as none": {
			api.Step{Pause: api.Pause{Duration: &zero}}, `{"pause":{"duration":0}}`},
		"a grace period of 0 seconds survives": {
			api.TrafficRoutingRef{Service: "a", GracePeriodSeconds: &zero}, `{"service":"a","gracePeriodSeconds":0}`},
		"a condition without times has no nulls, which the schema refuses": {
			api.Condition{Type: api.ConditionStalled, Status: corev1.ConditionTrue}, `{"type":"Stalled","status":"True"}`},
		"the machine's times keep microseconds": {
			api.SluiceStatus{Since: &at}, `{"since":"2026-01-02T03:04:05.678901Z"}`},
		"the columns' fields are always there": {
			api.RolloutStatus{}, `{"currentStepIndex":0,"currentStepState":""}`},
		"the status of a release is flat": {
			api.CanaryStatus{CommonStatus: api.CommonStatus{NextStepIndex: api.NoNextStep}},
			`{"nextStepIndex":-1,"canaryReplicas":0,"canaryReadyReplicas":0}`},
		"the analysis of a release is flat": {
			api.ReleaseAnalysis{Analysis: api.Analysis{DryRun: true}}, `{"templates":null,"dryRun":true}`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, encode(t, c.value)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestMicrosecondsSurviveARoundTrip(t *testing.T) {
	want := metav1.NewMicroTime(time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC))
	var got api.SluiceStatus
	if err := json.Unmarshal([]byte(encode(t, api.SluiceStatus{WakeAt: &want})), &got); err != nil {
		t.Fatal(err)
	}
	if !got.WakeAt.Equal(&want) {
		t.Errorf("got %v, want %v", got.WakeAt, want)
	}
}

func TestTheUnstructuredFormIsTheJSONForm(t *testing.T) {
	status := api.RolloutStatus{Conditions: []api.Condition{{Type: api.ConditionProgressing}}}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(encode(t, status), encode(t, reencode(t, object))); diff != "" {
		t.Error(diff)
	}
}

func reencode(t *testing.T, object map[string]any) api.RolloutStatus {
	t.Helper()
	text := encode(t, object)
	if strings.Contains(text, "null") {
		t.Errorf("%s holds a null, which the schema refuses", text)
	}
	var status api.RolloutStatus
	if err := json.Unmarshal([]byte(text), &status); err != nil {
		t.Fatal(err)
	}
	return status
}

func TestASchemeKnowsEveryKindInItsVersion(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := api.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for object, want := range map[runtime.Object]string{
		&api.Rollout{}:        "rollouts.kruise.io/v1beta1, Kind=Rollout",
		&api.TrafficRouting{}: "rollouts.kruise.io/v1alpha1, Kind=TrafficRouting",
		&api.RolloutHistory{}: "rollouts.kruise.io/v1alpha1, Kind=RolloutHistory",
	} {
		kinds, _, err := scheme.ObjectKinds(object)
		if err != nil || len(kinds) != 1 || kinds[0].String() != want {
			t.Errorf("got %v and %v, want %s", kinds, err, want)
		}
	}
}
