package crash

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"sluice.dev/sluice/test/world"
)

// story is a list of changes of a namespace, written by a test.
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

// endpoints adds n ready endpoints of the canary Service.
func (s story) endpoints(n int) story { return s.endpointsOf(canary, n) }

func (s story) endpointsOf(service string, n int) story {
	var list []any
	for range n {
		list = append(list, map[string]any{"conditions": map[string]any{"ready": true}})
	}
	told := s.then("endpointslices", service, map[string]any{"endpoints": list})
	told[len(told)-1].object.SetLabels(map[string]string{"kubernetes.io/service-name": service})
	return told
}

func (s story) weight(percent int64) story {
	return s.then("virtualservices", app, map[string]any{"spec": map[string]any{"http": []any{map[string]any{"route": []any{
		map[string]any{"destination": map[string]any{"host": canary}, "weight": percent},
	}}}}})
}

// set adds a ReplicaSet of the workload itself.
func (s story) set(image string, replicas int64) story {
	return s.then("replicasets", image, map[string]any{"kind": "ReplicaSet", "spec": map[string]any{"replicas": replicas, "template": map[string]any{"spec": running(image)}},
		"status": map[string]any{"readyReplicas": replicas}})
}

func (s story) pod(name, image string) story {
	return s.then("pods", name, map[string]any{"kind": "Pod", "spec": running(image)})
}

func running(image string) map[string]any {
	return map[string]any{"containers": []any{map[string]any{"image": image}}}
}

// workload adds a workload of the second version that creates its pods itself.
func (s story) workload(resource string, spec map[string]any) story {
	spec["template"] = map[string]any{"spec": running("app:2")}
	return s.then(resource, app, map[string]any{"spec": spec})
}

func (s story) parked() story {
	return s.workload("deployments", map[string]any{"minReadySeconds": int64(1<<31 - 2)})
}

func (s story) finalising(reason string) story {
	return s.status(`{"sluice": {"epoch": 1, "step": 3, "state": "Finalising", "finaliseReason": %q, "transitionSeq": 2, "pauseSeq": 3, "transitions": [{"seq": 2, "to": "x", "time": null}]}}`, reason)
}

func TestEachBrokenLawIsToldOfWorkloadsThatMakeTheirPods(t *testing.T) {
	t.Parallel()
	begun := story{}.step(1, 1).pinned("old").endpointsOf(app, 3)
	partition, daemons, both := variant{world.InPlace, approved}, variant{world.Daemons, approved}, variant{world.BlueGreen, approved}
	ordered, cloned := variant{world.Ordered, canceled}, variant{world.Cloned, canceled}
	for name, c := range map[string]struct {
		of      variant
		changes story
		want    string
	}{
		"a step as it should be":                   {partition, begun.parked().set("app:2", 1).endpoints(1).weight(20), ""},
		"more pods than the step has":              {partition, begun.parked().set("app:2", 2), "ExposureNeverAboveCommittedStep"},
		"a pod before the Service is pinned":       {partition, story{}.step(1, 1).parked().set("app:2", 1), "StableServicePinnedBeforeCanary"},
		"traffic before the pods are ready":        {partition, begun.parked().endpoints(1).weight(20), "NoTrafficBeforeReady"},
		"a Deployment that is free":                {partition, begun.workload("deployments", map[string]any{}), "WorkloadNeverFreeDuringRelease"},
		"a daemon as it should be":                 {daemons, begun.pod("a", "app:2"), ""},
		"a daemon too many":                        {daemons, begun.pod("a", "app:2").pod("b", "app:2"), "ExposureNeverAboveCommittedStep"},
		"a daemon that comes back":                 {daemons, begun.pod("a", "app:2").then("pods", "a", nil).pod("b", "app:2"), ""},
		"a daemon of a version between":            {daemons, begun.pod("a", "app:2").pod("b", "app:3"), ""},
		"traffic to a daemon that is not ready":    {daemons, begun.workload("daemonsets", onDelete()).pod("a", "app:2").endpoints(1).weight(20), "NoTrafficBeforeReady"},
		"a DaemonSet that waits":                   {daemons, begun.workload("daemonsets", onDelete()), ""},
		"a DaemonSet that is free":                 {daemons, begun.workload("daemonsets", map[string]any{}), "WorkloadNeverFreeDuringRelease"},
		"a StatefulSet that keeps pods":            {ordered, begun.workload("statefulsets", keeping("rollingUpdate", map[string]any{"partition": int64(1)})), ""},
		"a StatefulSet that is free":               {ordered, begun.workload("statefulsets", keeping("rollingUpdate", map[string]any{"partition": int64(0)})), "WorkloadNeverFreeDuringRelease"},
		"a pod of a StatefulSet too many":          {ordered, begun.pod("app-2", "app:2").pod("app-1", "app:2"), "ExposureNeverAboveCommittedStep"},
		"a CloneSet that keeps pods":               {cloned, begun.workload("clonesets", keeping("partition", "67%")), ""},
		"a CloneSet that is free":                  {cloned, begun.workload("clonesets", keeping("partition", "0%")), "WorkloadNeverFreeDuringRelease"},
		"a stable pod that goes within a step":     {both, begun.set("app:1", 3).set("app:1", 2), "StablePodsKeptUntilPromoted"},
		"a stable pod that goes in a rollback":     {both, begun.set("app:1", 3).finalising("Rollback").set("app:1", 2), "StablePodsKeptUntilPromoted"},
		"a stable pod that goes after a success":   {both, begun.set("app:1", 3).finalising("Success").set("app:1", 2), ""},
		"all traffic after the last step":          {both, begun.parked().set("app:2", 1).finalising("Success").set("app:2", 3).endpoints(3).weight(100), ""},
		"all traffic to less than all pods":        {both, begun.parked().set("app:2", 1).finalising("Success").endpoints(3).weight(100), "NoTrafficBeforeReady"},
		"all traffic to a version rolled back":     {both, begun.parked().set("app:2", 3).finalising("Rollback").endpoints(3).weight(100), "ExposureNeverAboveCommittedStep"},
		"all traffic in partition style that late": {partition, begun.parked().set("app:2", 1).finalising("Success").set("app:2", 3).endpoints(3).weight(100), "ExposureNeverAboveCommittedStep"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := strings.Join(breaches(c.changes, c.of), "\n")
			if c.want == "" && l != "" || !strings.Contains(l, c.want) {
				t.Errorf("told is %q, want %q", l, c.want)
			}
		})
	}
}

func onDelete() map[string]any {
	return map[string]any{"updateStrategy": map[string]any{"type": "OnDelete"}}
}

func keeping(field string, value any) map[string]any {
	return map[string]any{"updateStrategy": map[string]any{"type": "RollingUpdate", field: value}}
}

func TestEachBrokenLawIsTold(t *testing.T) {
	t.Parallel()
	begun := story{}.step(1, 1).pinned("old").endpointsOf(app, 3)
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
		"nothing that serves at the end":          {ready.endpointsOf(app, 3).finalising("Rollback").endpointsOf(app, 0), "WhatServesStays"},
		"less that serves at the end":             {ready.endpointsOf(app, 3).finalising("Rollback").endpointsOf(app, 1), ""},
		"traffic that the stable Service loses":   {ready.endpointsOf(app, 0).weight(20), "StableServes"},
		"something left in the end":               {ready.status(`{"sluice": {"epoch": 1, "state": "Idle", "transitionSeq": 1}}`), "NothingLeftAtRest"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := strings.Join(breaches(c.changes, variant{beside, approved}), "\n")
			if c.want == "" && l != "" || !strings.Contains(l, c.want) {
				t.Errorf("told is %q, want %q", l, c.want)
			}
		})
	}
}
