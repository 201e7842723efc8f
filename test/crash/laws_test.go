package crash

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/test/world"
)

const canary = app + api.SuffixCanary

// breaches returns the broken invariants of the core, as docs/invariants.md names them, and the change that broke each.
// It includes the laws of test/world.
func breaches(changes []change, v variant) []string {
	l := laws{variant: v, live: objects{}, pauses: map[int64]bool{}}
	for _, c := range changes {
		l.take(c)
	}
	return append(l.broken, world.Breaches(written(changes))...)
}

// laws is the state of a namespace after some changes.
type laws struct {
	variant variant
	live    objects
	// machine is the committed memory of the state machine, before the current change.
	machine api.SluiceStatus
	// pauses has the approved pauses.
	pauses map[int64]bool
	broken []string
}

func (l *laws) breach(law, format string, args ...any) {
	l.broken = append(l.broken, law+": "+fmt.Sprintf(format, args...))
}

func (l *laws) take(c change) {
	old, served := l.live[c.key()], l.live.endpoints(app)
	if c.kind == watch.Deleted {
		delete(l.live, c.key())
		return
	}
	l.live[c.key()] = c.object
	l.replaced(c.resource, old, c.object)
	if c.resource == "endpointslices" && served > 0 && l.live.endpoints(app) == 0 && l.state() == rollout.StateFinalising {
		l.breach("WhatServesStays", "no endpoint of Service %s is ready, of %d", app, served)
	}
	switch c.key() {
	case "rollouts/" + app:
		l.committed()
	case "virtualservices/" + app:
		l.routed(weight(old), weight(c.object))
	case "ingresses/" + canary:
		l.routed(ingressWeight(old), ingressWeight(c.object))
	case "deployments/" + canary:
		l.scaled(old, c.object)
	case l.variant.workload() + "/" + app:
		if l.state().InStep() && !l.held(c.object) {
			l.breach("WorkloadNeverFreeDuringRelease", "the workload was set free in %s of step %d", l.machine.State, l.machine.Step)
		}
	case "services/" + app:
		if selected(c.object) == "" && selected(old) != "" && l.state() != rollout.StateFinalising {
			l.breach("StableServicePinnedBeforeCanary", "the stable Service selects all pods in %s", l.machine.State)
		}
	}
}

func (l *laws) state() rollout.State { return rollout.State(l.machine.State) }

// committed checks a new status.
func (l *laws) committed() {
	r := l.live.rollout()
	if r.Status.Sluice == nil {
		return
	}
	old, m := l.machine, *r.Status.Sluice
	l.machine = m
	if m.State == string(rollout.StatePaused) && r.Status.Common().CurrentStepState == api.StepReady {
		l.pauses[m.PauseSeq] = true
	}
	for _, a := range r.Status.Approvals {
		l.pauses[a.PauseSeq] = true // metrics approve without a visible pause
	}
	if m.Epoch < old.Epoch || m.PauseSeq < old.PauseSeq || m.TransitionSeq < old.TransitionSeq {
		l.breach("EpochMonotonic", "epoch %d, pause %d and transition %d came after %d, %d and %d", m.Epoch, m.PauseSeq, m.TransitionSeq, old.Epoch, old.PauseSeq, old.TransitionSeq)
	}
	if gap := transitionGap(old.TransitionSeq, m); gap != "" {
		l.breach("TransitionSeqGapless", "%s", gap)
	}
	if l.state().InStep() && int(m.Step) > 1+len(l.pauses) || m.FinaliseReason == api.FinaliseSuccess && len(l.pauses) < stepsOf(r) {
		l.breach("NoStepSkippedWithoutApproval", "the release is in %s of step %d after %d approvals", m.State, m.Step, len(l.pauses))
	}
	if l.state() == rollout.StateIdle && m.Epoch > 0 {
		l.atRest()
	}
}

// stepsOf returns the number of steps of a Rollout.
func stepsOf(r *api.Rollout) int {
	switch s := r.Spec.Strategy; {
	case s.BlueGreen != nil:
		return len(s.BlueGreen.Steps)
	case s.Canary != nil:
		return len(s.Canary.Steps)
	}
	return 0
}

func transitionGap(before int64, m api.SluiceStatus) string {
	next := m.TransitionSeq - int64(len(m.Transitions)) + 1
	if next > before+1 {
		return fmt.Sprintf("transition %d is the first that is told after %d", next, before)
	}
	for i, t := range m.Transitions {
		if t.Seq != next+int64(i) {
			return fmt.Sprintf("transition %d stands where %d should", t.Seq, next+int64(i))
		}
	}
	return ""
}

func (l *laws) atRest() {
	if weight(l.live["virtualservices/"+app]) > 0 || l.live["ingresses/"+canary] != nil || l.live["destinationrules/"+canary+"."+app] != nil || l.live["services/"+canary] != nil || selected(l.live["services/"+app]) != "" {
		l.breach("NothingLeftAtRest", "a route, a canary Service or a narrowed selector is left")
	}
	if d := l.live["deployments/"+canary]; d != nil && d.GetDeletionTimestamp() == nil {
		l.breach("NothingLeftAtRest", "the canary is left")
	}
}

// routed checks the canary's share of the traffic.
func (l *laws) routed(old, now int64) {
	if now <= old {
		return
	}
	n, want := int(l.machine.Step), int64(size)
	if !l.promoted() {
		if !l.state().InStep() || n < 1 || n > len(steps()) || now > steps()[n-1].Weight {
			l.breach("ExposureNeverAboveCommittedStep", "the canary got %d %% of the traffic in %s of step %d", now, l.machine.State, n)
			return
		}
		want = steps()[n-1].Replicas
	}
	available := l.available()
	if ready := l.live.endpoints(canary); available < want || ready < want {
		l.breach("NoTrafficBeforeReady", "the canary got %d %% of the traffic with %d pods available and %d endpoints ready of %d", now, available, ready, want)
	}
	if selected(l.live["services/"+app]) != "" && l.live.endpoints(app) == 0 {
		l.breach("StableServes", "the canary got %d %% of the traffic, and the rest goes to Service %s without a ready endpoint", now, app)
	}
}

// promoted reports whether the last step of a blue-green release was agreed to. Then all traffic may go to the new
// version.
func (l *laws) promoted() bool {
	return l.variant.blueGreen() && l.state() == rollout.StateFinalising && l.machine.FinaliseReason == api.FinaliseSuccess
}

// scaled checks the canary's pods.
func (l *laws) scaled(old, now *unstructured.Unstructured) {
	is := replicas(now)
	if is <= replicas(old) && old != nil {
		return
	}
	n := int(l.machine.Step)
	if !l.state().InStep() || n < 1 || n > len(steps()) || is > steps()[n-1].Replicas {
		l.breach("ExposureNeverAboveCommittedStep", "the canary got %d pods in %s of step %d", is, l.machine.State, n)
	}
	if selected(l.live["services/"+app]) == "" {
		l.breach("StableServicePinnedBeforeCanary", "the canary got pods while the stable Service selects them as well")
	}
}

// weight returns the percentage of the traffic that a VirtualService gives to the canary Service.
func weight(route *unstructured.Unstructured) int64 {
	if route == nil {
		return 0
	}
	var sum int64
	rules, _, _ := unstructured.NestedSlice(route.Object, "spec", "http")
	for _, rule := range rules {
		destinations, _, _ := unstructured.NestedSlice(rule.(map[string]any), "route")
		for _, d := range destinations {
			if host, _, _ := unstructured.NestedString(d.(map[string]any), "destination", "host"); host == canary {
				w, _, _ := unstructured.NestedInt64(d.(map[string]any), "weight")
				sum += w
			}
		}
	}
	return sum
}

// ingressWeight returns the percentage of the traffic that a canary Ingress gives to its Service.
func ingressWeight(canary *unstructured.Unstructured) int64 {
	if canary == nil {
		return 0
	}
	w, err := strconv.ParseInt(canary.GetAnnotations()["nginx.ingress.kubernetes.io/canary-weight"], 10, 64)
	if err != nil {
		return 100 // the share is unknown, so assume the most
	}
	return w
}

// selected returns the revision to which a Service is narrowed.
func selected(service *unstructured.Unstructured) string {
	if service == nil {
		return ""
	}
	selector, _, _ := unstructured.NestedStringMap(service.Object, "spec", "selector")
	return cmp.Or(selector[api.LabelPodTemplateHash], selector[api.LabelControllerRevisionHash])
}

// endpoints counts the ready endpoints of a Service.
func (o objects) endpoints(service string) (ready int64) {
	for _, u := range o {
		if u.GetKind() != "EndpointSlice" || u.GetLabels()["kubernetes.io/service-name"] != service {
			continue
		}
		list, _, _ := unstructured.NestedSlice(u.Object, "endpoints")
		for _, e := range list {
			if is, found, _ := unstructured.NestedBool(e.(map[string]any), "conditions", "ready"); is || !found {
				ready++
			}
		}
	}
	return ready
}

// written converts changes to writes of test/world, all with the user name of an executor: only executors change the
// objects of its laws.
func written(changes []change) []world.Write {
	const executorUser = "system:serviceaccount:" + api.DefaultNamespace + ":" + api.DefaultExecutor
	verbs := map[watch.EventType]string{watch.Added: "create", watch.Modified: "update", watch.Deleted: "delete"}
	var list []world.Write
	for _, c := range changes {
		if !slices.Contains([]string{"services", "deployments", "virtualservices", "destinationrules", "ingresses"}, c.resource) {
			continue
		}
		w := world.Write{Verb: verbs[c.kind], User: executorUser, Resource: c.resource, Name: c.object.GetName(), Code: 200, Version: c.version}
		if c.kind != watch.Deleted {
			w.Object = c.object
		}
		list = append(list, w)
	}
	return list
}
