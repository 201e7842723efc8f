package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/traffic"
	"sluice.dev/sluice/pkg/workload"
)

// pausedStatus is the status of a Rollout at the third pause of its first release, as an executor wrote it.
//
//go:embed status.json
var pausedStatus []byte

// least is one release with minimal writes for its style, in the order of an executor. Each write waits only for the required work of the cluster. No process
// reads, decides, or waits for a grace period.
type least struct {
	rolloutName
	set   string
	shape shape
	// owner changes the Deployment; writer has the identity of an executor.
	owner, writer *client
	seen          *natives
	version       string
	rollout       view
	route         string // resourceVersion of the VirtualService

	stable, canary               *appsv1.Deployment
	stableService, canaryService *corev1.Service
	stableHash, canaryHash       string
	status                       api.RolloutStatus
}

// move is one write, with the wait for its effect.
type move struct {
	what string
	do   func(context.Context) error
}

func (l *least) fly(ctx context.Context) error {
	for _, m := range l.moves() {
		if err := m.do(ctx); err != nil {
			return fmt.Errorf("release %s by the least writes: %s: %w", l.key(), m.what, err)
		}
	}
	return nil
}

// moves returns all writes in order. The status is committed before each write that raises exposure.
func (l *least) moves() []move {
	if l.shape.style == stylePartition {
		return l.inPlace()
	}
	moves := []move{{"change the Deployment", l.change}, {"narrow the Service", l.pin}}
	for step := int32(1); int(step) <= l.shape.steps; step++ {
		moves = append(moves, l.begins(step), move{"bring up the canary", func(ctx context.Context) error { return l.scale(ctx, l.shape.podsOf(step)) }})
		moves = append(moves, l.routes(step)...)
	}
	return append(moves, l.ends(move{"let the Deployment go", l.resume}, move{"delete the canary", l.deleteCanary})...)
}

// begins returns the first write of a step; routes returns the writes after its pods are there.
func (l *least) begins(step int32) move {
	return move{"commit that a step begins", l.commit(api.PhaseProgressing, rollout.StateUpgrade, step)}
}

func (l *least) routes(step int32) []move {
	return []move{
		{"serve the canary", func(ctx context.Context) error { return l.serve(ctx, l.shape.podsOf(step)) }},
		{"write the route", func(ctx context.Context) error { return l.steer(ctx, step) }},
		{"commit a pause", l.commit(api.PhaseProgressing, rollout.StatePaused, step)},
	}
}

// ends returns the last writes, including the writes that restore the workload.
func (l *least) ends(giveBack ...move) []move {
	last := int32(l.shape.steps)
	moves := append([]move{
		{"commit that the steps are done", l.commit(api.PhaseProgressing, rollout.StateFinalising, last)},
		{"open the Service", l.unpin},
		{"restore the route", func(ctx context.Context) error { return l.steer(ctx, 0) }},
		{"delete the canary Service", l.deleteService},
	}, giveBack...)
	return append(moves, move{"commit the end", l.commit(api.PhaseHealthy, rollout.StateIdle, last)})
}

// podsOf returns the number of pods of the new version in a step.
func (s shape) podsOf(step int32) int32 {
	return shareOf(fmt.Sprintf("%d%%", s.share(int(step))), s.replicas)
}

// shareOf returns a percentage of replicas, rounded up.
func shareOf(percent string, replicas int) int32 {
	share := intstr.FromString(percent)
	n, err := intstr.GetScaledValueFromIntOrPercent(&share, replicas, true)
	if err != nil {
		return 1
	}
	return int32(n)
}

func (l *least) change(ctx context.Context) (err error) {
	deployments := l.owner.typed.AppsV1().Deployments(l.namespace)
	l.stableHash = l.seen.hash(l.stable)
	l.stable, err = deployments.Patch(ctx, l.name, types.StrategicMergePatchType, []byte(l.shape.newVersion(l.version)), metav1.PatchOptions{})
	if err == nil && !l.stable.Spec.Paused {
		return fmt.Errorf("the change was not held")
	}
	return err
}

func (l *least) pin(ctx context.Context) error {
	return l.patchService(ctx, traffic.PinService(l.stableService, api.LabelPodTemplateHash, l.stableHash))
}

func (l *least) unpin(ctx context.Context) error {
	return l.patchService(ctx, traffic.UnpinService(l.stableService))
}

func (l *least) patchService(ctx context.Context, patch map[string]any) error {
	body, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	l.stableService, err = l.writer.typed.CoreV1().Services(l.namespace).Patch(ctx, l.name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: api.FieldManager})
	return err
}

// scale creates the canary, or scales it up, and waits until its pods are available.
func (l *least) scale(ctx context.Context, pods int32) error {
	var err error
	switch {
	case l.canary == nil:
		var canary *appsv1.Deployment
		canary, err = workload.NewCanary(l.stable, workload.CanaryOf{
			Name: l.name + api.SuffixCanary, Replicas: pods, Epoch: l.status.Sluice.Epoch, Revision: workload.TemplateRevision(l.stable.Spec.Template),
			RolloutName: l.name, RolloutUID: l.rollout.Metadata.UID,
		})
		if err == nil {
			l.canary, err = l.writer.typed.AppsV1().Deployments(l.namespace).Create(ctx, canary, metav1.CreateOptions{FieldManager: api.FieldManager})
		}
	case *l.canary.Spec.Replicas < pods:
		l.canary, err = l.patchDeployment(ctx, l.canary.Name, workload.ScaleDeployment(l.canary, pods))
	}
	if err != nil {
		return err
	}
	return l.seen.await(ctx, l.rolloutName, func() bool {
		l.canaryHash = l.seen.hash(l.canary)
		return l.seen.available(l.canary, pods) && l.canaryHash != ""
	})
}

// patchDeployment omits the version of the Deployment: the Deployment controller writes too, and the bench does not retry.
func (l *least) patchDeployment(ctx context.Context, name string, patch workload.Patch) (*appsv1.Deployment, error) {
	if metadata, ok := patch["metadata"].(map[string]any); ok {
		delete(metadata, "resourceVersion")
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return nil, err
	}
	return l.writer.typed.AppsV1().Deployments(l.namespace).Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: api.FieldManager})
}

// serve creates the canary Service, and waits until pods of its endpoints are ready.
func (l *least) serve(ctx context.Context, pods int32) error {
	if l.canaryService == nil {
		service, err := traffic.NewCanaryService(l.stableService, traffic.CanaryServiceParams{
			Name: l.name + api.SuffixCanary, Key: api.LabelPodTemplateHash, Hash: l.canaryHash, RolloutName: l.name, RolloutUID: l.rollout.Metadata.UID, Epoch: l.status.Sluice.Epoch,
		})
		if err != nil {
			return err
		}
		l.canaryService, err = l.writer.typed.CoreV1().Services(l.namespace).Create(ctx, service, metav1.CreateOptions{FieldManager: api.FieldManager})
		if err != nil {
			return err
		}
	}
	return l.seen.await(ctx, l.rolloutName, func() bool { return l.seen.ready(l.canaryService) >= pods })
}

// steer writes the routing of a step into the VirtualService; step 0 restores the original routing.
func (l *least) steer(ctx context.Context, step int32) error {
	body := virtualService(object{"name": l.name, "labels": labelsOf(l.set), "resourceVersion": l.route}, l.name)
	if step > 0 {
		routed(body, l.name, l.rollout.Metadata.UID, l.shape.share(int(step)))
	}
	answer, err := l.writer.put(ctx, collection(virtualServicesPath, l.namespace, "virtualservices")+"/"+l.name, body)
	l.route = answer.Metadata.ResourceVersion
	return err
}

func (l *least) deleteService(ctx context.Context) error {
	return l.writer.typed.CoreV1().Services(l.namespace).Delete(ctx, l.canaryService.Name, metav1.DeleteOptions{})
}

func (l *least) resume(ctx context.Context) (err error) {
	if l.stable, err = l.patchDeployment(ctx, l.name, workload.ResumeDeployment(l.stable, rollout.StableIDPresent)); err != nil {
		return err
	}
	return l.seen.await(ctx, l.rolloutName, func() bool { return l.seen.available(l.stable, int32(l.shape.replicas)) })
}

func (l *least) deleteCanary(ctx context.Context) error {
	background := metav1.DeletePropagationBackground
	return l.writer.typed.AppsV1().Deployments(l.namespace).Delete(ctx, l.canary.Name, metav1.DeleteOptions{PropagationPolicy: &background})
}

// commit writes a status of the same length as an executor's.
func (l *least) commit(phase api.Phase, state rollout.State, step int32) func(context.Context) error {
	return func(ctx context.Context) error {
		now := metav1.NowMicro()
		at := metav1.NewTime(now.Time)
		s, m, c := &l.status, l.status.Sluice, l.status.CanaryStatus
		s.Phase, s.CurrentStepIndex = phase, step
		m.State, m.Step, m.Since = string(state), step, &now
		c.CurrentStepIndex, c.CurrentStepState, c.LastUpdateTime = step, shown(state), &at
		s.CurrentStepState = c.CurrentStepState
		last := m.Transitions[len(m.Transitions)-1]
		m.TransitionSeq++
		m.Transitions = append(m.Transitions[1:], api.Transition{Seq: m.TransitionSeq, Time: now, From: last.To, To: string(state), Step: step,
			Reason: last.Reason, Message: last.Message})
		meta := object{"name": l.name, "namespace": l.namespace, "uid": l.rollout.Metadata.UID, "resourceVersion": l.rollout.Metadata.ResourceVersion}
		body := l.shape.rollout(meta, l.name)
		body["status"] = s
		answer, err := l.writer.put(ctx, collection(rolloutsPath, l.namespace, "rollouts")+"/"+l.name+"/status", body)
		l.rollout.Metadata.ResourceVersion = answer.Metadata.ResourceVersion
		return err
	}
}

// shown returns the OpenKruise name of a state.
func shown(state rollout.State) api.StepState {
	if state.InStep() {
		return api.StepState(state)
	}
	return api.StepCompleted
}

// begin prepares another release.
func (l *least) begin(version string) error {
	l.canary, l.canaryService, l.version = nil, nil, version
	if l.status.Sluice != nil {
		l.status.Sluice.Epoch++
		return nil
	}
	if err := json.Unmarshal(pausedStatus, &l.status); err != nil {
		return fmt.Errorf("read the status that is written: %w", err)
	}
	return nil
}
