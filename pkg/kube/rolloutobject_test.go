package kube

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/pkg/api"
)

func TestTheEditorIsWhoGaveTheLastCommand(t *testing.T) {
	t.Parallel()
	at := func(second int) *metav1.Time {
		when := metav1.NewTime(time.Unix(int64(second), 0))
		return &when
	}
	const approves, jumps, others = `{"f:status":{"f:canaryStatus":{"f:currentStepState":{}}}}`,
		`{"f:status":{"f:blueGreenStatus":{"f:nextStepIndex":{}}}}`, `{"f:status":{"f:canaryStatus":{"f:message":{}}}}`
	entry := func(manager, subresource, fields string, time *metav1.Time) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Subresource: subresource, Time: time, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	cases := map[string]struct {
		entries []metav1.ManagedFieldsEntry
		want    string
	}{
		"nobody":                       {nil, ""},
		"we ourselves":                 {[]metav1.ManagedFieldsEntry{entry("sluice", "status", approves, at(9))}, ""},
		"an approver":                  {[]metav1.ManagedFieldsEntry{entry("sluice", "status", others, at(9)), entry("kubectl", "status", approves, at(2))}, "kubectl"},
		"the latest of several":        {[]metav1.ManagedFieldsEntry{entry("ci", "status", jumps, at(5)), entry("kubectl", "status", approves, at(2))}, "ci"},
		"who wrote only other fields":  {[]metav1.ManagedFieldsEntry{entry("kubectl", "status", others, at(2))}, ""},
		"who wrote the spec":           {[]metav1.ManagedFieldsEntry{entry("kubectl", "", approves, at(2))}, ""},
		"an entry that cannot be read": {[]metav1.ManagedFieldsEntry{entry("kubectl", "status", "[", at(2)), {Manager: "x", Subresource: "status"}}, ""},
		"an entry without a time":      {[]metav1.ManagedFieldsEntry{entry("kubectl", "status", approves, nil)}, "kubectl"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := statusEditor(&api.Rollout{ObjectMeta: metav1.ObjectMeta{ManagedFields: c.entries}}); got != c.want {
				t.Errorf("the editor is %q, want %q", got, c.want)
			}
		})
	}
}
