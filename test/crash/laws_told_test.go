package crash

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
)

// story is the changes of a namespace, as a test tells them.
type story []change

func (s story) then(resource, name string, object map[string]any) story {
	kind := watch.Modified
	if object == nil {
		kind, object = watch.Deleted, map[string]any{}
	}
	object["metadata"] = map[string]any{"name": name, "labels": map[string]any{"kubernetes.io/service-name": canary}}
	if resource == "endpointslices" {
		object["kind"] = "EndpointSlice"
	}
	return append(s[:len(s):len(s)], change{int64(len(s)), resource, kind, &unstructured.Unstructured{Object: object}})
}

func (s story) status(format string, args ...any) story {
	var status map[string]any
	if err := json.Unmarshal(fmt.Appendf(nil, format, args...), &status); err != nil {
		panic(err)
	}
	return s.then("rollouts", app, map[string]any{"status": status})
}

func (s story) step(n, seq int) story {
	return s.status(`{"sluice": {"epoch": 1, "step": %d, "state": "StepUpgrade", "pauseSeq": %d, "transitionSeq": %d, "transitions": [{"seq": %d, "to": "x", "time": null}]}}`, n, n-1, seq, seq)
}

func (s story) pinned(hash string) story {
	return s.then("services", app, map[string]any{"spec": map[string]any{"selector": map[string]any{"pod-template-hash": hash}}})
}

func (s story) canary(replicas, available int64) story {
	return s.then("deployments", canary, map[string]any{"spec": map[string]any{"replicas": replicas}, "status": map[string]any{"availableReplicas": available}})
}

func (s story) endpoints(n int) story {
	var list []any
	for range n {
		list = append(list, map[string]any{"conditions": map[string]any{"ready": true}})
	}
	return s.then("endpointslices", "e", map[string]any{"endpoints": list})
}

func (s story) weight(percent int64) story {
	return s.then("virtualservices", app, map[string]any{"spec": map[string]any{"http": []any{map[string]any{"route": []any{
		map[string]any{"destination": map[string]any{"host": canary}, "weight": percent},
	}}}}})
}

func TestEachBrokenLawIsTold(t *testing.T) {
	t.Parallel()
	begun := story{}.step(1, 1).pinned("old")
	ready := begun.canary(1, 1).endpoints(1)
	for name, c := range map[string]struct {
		changes story
		want    string
	}{
		"a step as it should be":                  {ready.weight(20), ""},
		"more traffic than the step has":          {ready.weight(60), "ExposureNeverAboveCommittedStep"},
		"more pods than the step has":             {begun.canary(2, 0), "ExposureNeverAboveCommittedStep"},
		"a canary before the release":             {story{}.pinned("old").canary(1, 0), "ExposureNeverAboveCommittedStep"},
		"a canary before the Service is pinned":   {story{}.step(1, 1).canary(1, 0), "StableServicePinnedBeforeCanary"},
		"traffic before the pods are available":   {begun.canary(1, 0).endpoints(1).weight(20), "NoTrafficBeforeReady"},
		"traffic before the endpoints are ready":  {begun.canary(1, 1).weight(20), "NoTrafficBeforeReady"},
		"a step that nobody approved":             {ready.step(2, 2), "NoStepSkippedWithoutApproval"},
		"a transition that is missing":            {ready.step(1, 3), "TransitionSeqGapless"},
		"a status that goes back":                 {story{}.step(1, 2).step(1, 1), "EpochMonotonic"},
		"a Service that is let go in the middle":  {ready.pinned(""), "StableServicePinnedBeforeCanary"},
		"a workload that is let go in the middle": {ready.then("deployments", app, map[string]any{"spec": map[string]any{}}), "WorkloadNeverFreeDuringRelease"},
		"something left in the end":               {ready.status(`{"sluice": {"epoch": 1, "state": "Idle", "transitionSeq": 1}}`), "NothingLeftAtRest"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := strings.Join(breaches(c.changes, approved), "\n")
			if c.want == "" && l != "" || !strings.Contains(l, c.want) {
				t.Errorf("told is %q, want %q", l, c.want)
			}
		})
	}
}
