package world

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// Overexposed returns a message for each write to one namespace that exposed a new version further than was approved.
// The laws are:
//
//   - The committed step passes a step if a user approved it, jumped beyond it or skipped all steps. It also passes a
//     step whose pause has a duration, whose metrics decide, or that is the last one and has all pods. Before that, no
//     release ends as a success.
//   - No canary Deployment has more pods than the furthest step committed in its release.
//   - No workload may bring in more new pods than that either. It could by its partition, its budget, its surge, its
//     free room or by deletions of pods. Pods of a change that came before its Rollout may run the new version already.
//   - No step that asks for less than all pods and all requests has a workload replace all of its pods, unless it says
//     allowFullStep.
//   - No route sends more of the traffic than the committed step to a canary Service, or to the subset canary of a
//     shared Service. All of it is allowed at the end of a blue-green release. Requests that match the step's rules do
//     not count.
//   - While no release has been committed, there is no exposure at all. Executors release a held change only for a
//     disabled or deleted Rollout, or for a workload that has its old template again.
//
// Overexposed sees the writes of executors and users, and the number of nodes of a DaemonSet. The audit log does not
// have the resulting writes of the cluster's own controllers.
func Overexposed(writes []Write) []string {
	e := exposure{rollouts: map[string]*committed{}, replicas: map[string]int32{}, canaries: map[string]int32{}, doubted: map[string]bool{}, unanswered: map[string]int64{}}
	for _, w := range writes {
		lost := w.User == executorUser && w.Subresource == "" && w.Unanswered()
		commit := w.Resource == "rollouts" && w.Subresource == "status" && w.User == executorUser
		switch {
		case commit && w.Unanswered():
			e.doubted[w.Name] = true
		case !lost && (w.Code >= 300 || w.Code == 0):
		case commit:
			e.take(w)
			e.settle(w.Name)
		case len(e.doubted) > 0 && (w.User == executorUser || e.waits(w)):
			e.later = append(e.later, w)
		default:
			e.take(w)
		}
	}
	return e.breaches
}

// waits reports whether an earlier write of the same object is not judged yet.
func (e *exposure) waits(w Write) bool {
	return slices.ContainsFunc(e.later, func(before Write) bool { return before.Resource == w.Resource && before.Name == w.Name })
}

// settle judges the writes made while it was unknown whether a step had been committed. The next commit shows whether
// it was.
func (e *exposure) settle(rollout string) {
	delete(e.doubted, rollout)
	if len(e.doubted) > 0 {
		return
	}
	for _, w := range e.later {
		e.take(w)
	}
	e.later = nil
	for _, c := range e.rollouts {
		c.stirred = false
	}
}

func (e *exposure) take(w Write) {
	if w.Unanswered() {
		e.unanswered[w.Resource+"/"+w.Name]++
		return
	}
	if w.Verb == "delete" {
		e.takeDeletion(w)
	}
	if w.Object == nil {
		return
	}
	switch w.Resource {
	case "rollouts":
		e.takeRollout(w)
	case "deployments":
		e.takeDeployment(w)
	case "replicasets":
		e.takeSet(w)
	case "daemonsets":
		e.takeNodes(w)
	case "horizontalpodautoscalers":
		e.takeAutoscaler(w)
	case "virtualservices", "httproutes", "ingresses":
		e.takeRoute(w)
	}
	e.takeLever(w)
}

func (e *exposure) takeDeletion(w Write) {
	switch w.Resource {
	case "pods":
		e.takePod(w)
	case "deployments":
		delete(e.canaries, w.Name)
	case "rollouts":
		if c := e.rollouts[w.Name]; c != nil {
			c.deleting = true
		}
	}
}

type exposure struct {
	rollouts map[string]*committed
	// replicas has the greatest possible number of replicas of each workload, by name, because a canary is not scaled
	// down with its workload.
	replicas map[string]int32
	// canaries has the replicas in the last write of each canary Deployment, by name.
	canaries map[string]int32
	// doubted has the Rollouts whose last commit was never answered, so that it may or may not have been made. later
	// has the writes since then.
	doubted map[string]bool
	later   []Write
	// unanswered counts, by resource and name, the writes of executors that the API server did not answer, since the
	// last answered one. The next write of the object shows whether the API server carried them out.
	unanswered map[string]int64
	breaches   []string
}

// committed is the known state of one Rollout.
type committed struct {
	spec  rollout.Spec
	known bool
	// deleting is set after a user has deleted the Rollout. The deletion waits until the executor has released the
	// workload.
	deleting bool
	last     api.RolloutStatus
	epoch    int64
	step     int32
	state    rollout.State
	// stirred is set if a release was under way at some time while a commit was in doubt. Then the writes in that time
	// may be part of a release.
	stirred bool
	// furthest has the steps committed in this release, passable the steps that a user let it pass.
	furthest []stage
	passable map[int32]bool
	// deleted has the pods of a DaemonSet that executors deleted to make room for new ones in this release. misfits
	// counts the pods that its controller deleted because their nodes no longer matched. Their successors may be new.
	deleted map[string]bool
	misfits int32
	// lever is the state of the workload after its last write, free the template of its last state without a hold.
	lever lever
	free  any
	// agreed has the hashes of versions that a release has brought to all pods, or is about to. A later release may
	// hold them.
	agreed map[string]bool
	// beyond is set if a user had all remaining steps skipped.
	beyond bool
}

// rests reports whether no Rollout has a release of the workload under way, so that no step is approved.
func (e *exposure) rests(c *committed) bool {
	for _, other := range e.rollouts {
		if other.spec.Workload == c.spec.Workload && (other.stirred || other.state.Releasing()) {
			return false
		}
	}
	return c.known
}

func (e *exposure) breach(w Write, format string, args ...any) {
	e.breaches = append(e.breaches, w.Received.Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

func (e *exposure) takeRollout(w Write) {
	r := &api.Rollout{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(w.Object.Object, r); err != nil {
		e.breach(w, "Rollout %s cannot be read: %v", w.Name, err)
		return
	}
	c := e.rollouts[w.Name]
	if c == nil {
		c = &committed{passable: map[int32]bool{}, agreed: map[string]bool{}}
		e.rollouts[w.Name] = c
	}
	if spec, err := rollout.Parse(r); err == nil {
		if c.known && len(spec.Steps) != len(c.spec.Steps) {
			c.replanned(spec, e.replicas[spec.Workload.Name])
		}
		c.spec, c.known = spec, true
	}
	switch {
	case w.Subresource != "status":
	case w.User != executorUser:
		c.told(r.Status)
	case r.Status.Sluice != nil:
		e.commits(w, c, r.Status)
	}
	c.last = r.Status
	c.deleting = w.Verb != "create" && (c.deleting || r.DeletionTimestamp != nil)
	if r.DeletionTimestamp != nil && len(r.Finalizers) == 0 {
		delete(e.rollouts, w.Name) // the Rollout has no finalizer left, and another one may get its name
	}
}

// replanned records that a user has changed the number of steps. The release passes the steps that have fewer pods than it has.
func (c *committed) replanned(spec rollout.Spec, total int32) {
	var have int32
	if s := c.last.CanaryStatus; s != nil {
		have = s.CanaryReplicas
	}
	for n, step := range spec.Steps {
		if step.Replicas.Of(total) < have {
			c.passable[int32(n)+1] = true
		}
	}
}

// told records approvals, jumps and commands of users.
func (c *committed) told(s api.RolloutStatus) {
	before, after := commonOf(c.last), commonOf(s)
	if before.CurrentStepState == api.StepPaused && after.CurrentStepState == api.StepReady {
		c.passable[after.CurrentStepIndex] = true
	}
	// A jump beyond the last step, or outside a step, is reset.
	if next := after.NextStepIndex; next != before.NextStepIndex && c.state.InStep() && int(next) <= len(c.spec.Steps) {
		for n := int32(1); n < next; n++ {
			c.passable[n] = true
		}
	}
	if s.Command == nil || c.last.Command != nil && *s.Command == *c.last.Command {
		return
	}
	switch s.Command.Action {
	case api.CommandApprove:
		c.passable[c.step] = true
	case api.CommandPromote:
		c.beyond = true
	}
}

func commonOf(s api.RolloutStatus) api.CommonStatus {
	switch {
	case s.CanaryStatus != nil:
		return s.CanaryStatus.CommonStatus
	case s.BlueGreenStatus != nil:
		return s.BlueGreenStatus.CommonStatus
	}
	return api.CommonStatus{}
}

// commits judges a commit of an executor.
func (e *exposure) commits(w Write, c *committed, s api.RolloutStatus) {
	m := s.Sluice
	if len(e.doubted) > 0 && (c.state.Releasing() || rollout.State(m.State).Releasing() || m.Epoch != c.epoch) {
		c.stirred = true
	}
	if m.Epoch != c.epoch {
		c.epoch, c.step, c.furthest, c.passable, c.beyond, c.deleted, c.misfits = m.Epoch, 1, nil, map[int32]bool{}, false, map[string]bool{}, 0
	}
	for _, a := range s.Approvals {
		if a.Epoch == m.Epoch && a.Decision == api.DecisionApprove {
			c.passable[a.Step] = true
		}
	}
	state := rollout.State(m.State)
	until := m.Step
	if !state.Releasing() {
		until = c.step
	}
	if state == rollout.StateFinalising && m.FinaliseReason == api.FinaliseSuccess {
		c.agreed[commonOf(s).PodTemplateHash] = true
		if c.state.InStep() {
			until = int32(len(c.spec.Steps)) + 1
		}
	}
	for n := max(c.step, 1); n < until; n++ {
		if !c.passes(n) {
			e.breach(w, "step %d of release %d of Rollout %s was passed without an approval", n, m.Epoch, w.Name)
		}
	}
	if state.Releasing() && c.known && int(m.Step) <= len(c.spec.Steps) {
		c.step = m.Step
		now := stage{c.spec.Steps[m.Step-1], int(m.Step) == len(c.spec.Steps)}
		if !slices.ContainsFunc(c.furthest, func(s stage) bool { return s.Replicas == now.Replicas && s.asksAll() == now.asksAll() }) {
			c.furthest = append(c.furthest, now)
		}
	}
	if !state.Releasing() {
		c.step, c.furthest = 0, nil
	}
	c.state = state
}

func (c *committed) passes(n int32) bool {
	if c.beyond || c.passable[n] || !c.known || int(n) > len(c.spec.Steps) {
		return true
	}
	s := c.spec.Steps[n-1]
	last := int(n) == len(c.spec.Steps) && s.Replicas == rollout.Amount{Value: 100, Percent: true} && c.spec.Style != rollout.StyleBlueGreen
	return !s.Manual || s.Analysis != nil || last
}

func (e *exposure) takeDeployment(w Write) {
	replicas, _ := whole(w.Object.Object, "spec", "replicas")
	stable, canary := w.Object.GetLabels()[api.LabelCanaryDeployment]
	if !canary {
		// If the workload is scaled down, an annotation has the owner's number.
		own, _ := strconv.ParseInt(w.Object.GetAnnotations()[api.AnnotationOriginalPrefix+"replicas"], 10, 32)
		e.replicas[w.Name] = max(e.replicas[w.Name], int32(replicas), int32(own))
		return
	}
	had := e.canaries[w.Name]
	e.canaries[w.Name] = int32(replicas)
	if w.User != executorUser {
		return
	}
	for name, c := range e.rollouts {
		most, rests := c.most(e.replicas[stable]), e.rests(c)
		switch {
		case c.spec.Workload.Name != stable || !c.known:
		case rests && int32(replicas) > had:
			e.breach(w, "the canary %s got %d pods when Rollout %s had come to no step", w.Name, replicas, name)
		case len(c.furthest) > 0 && int32(replicas) > most:
			e.breach(w, "the canary %s got %d pods when Rollout %s had come to a step of %d", w.Name, replicas, name, most)
		}
	}
}

// takeAutoscaler records how far an autoscaler may scale a workload. The audit log does not have these writes.
func (e *exposure) takeAutoscaler(w Write) {
	target, _, _ := unstructured.NestedString(w.Object.Object, "spec", "scaleTargetRef", "name")
	target = strings.TrimSuffix(target, "-DisableByRollout")
	most, _ := whole(w.Object.Object, "spec", "maxReplicas")
	e.replicas[target] = max(e.replicas[target], int32(most))
}

// whole returns an integer of an object from the audit log, which has all numbers as floats.
func whole(object map[string]any, fields ...string) (n int64, ok bool) {
	value, _, _ := unstructured.NestedFieldNoCopy(object, fields...)
	switch v := value.(type) {
	case int64:
		return v, true
	case float64:
		return int64(v), true
	}
	return 0, false
}
