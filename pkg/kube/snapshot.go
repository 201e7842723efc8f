package kube

import (
	"cmp"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/traffic"
	"sluice.dev/sluice/pkg/workload"
)

// Snapshot is the observed state for one Rollout. Writes put the answers of the API server into it, so the next plan
// needs no further read. It is not safe for concurrent use.
type Snapshot struct {
	// Seen is the view for the core, always up to date with the objects below.
	Seen rollout.Seen
	// Scripts are the scripts that render the routes, one for each gateway object.
	Scripts []api.ScriptStatus

	spec           rollout.Spec
	order          FleetOrder // read once for each observation
	orderedBy      api.FleetReference
	observedAt     time.Time // when the latest observation, or the latest successful commit, began
	rollout        *api.Rollout
	deployment     *appsv1.Deployment
	object         *workloadObject // the workload, if it is not a Deployment; nil until it was read
	canary         *appsv1.Deployment
	replicaSets    []*appsv1.ReplicaSet
	rival          string     // another Rollout that governs the workload, which no Rollout has adopted
	otherRollout   string     // another live Rollout that has adopted the workload
	backends       []*backend // in the order of the routing
	gateways       []*gateway
	autoscalers    []autoscaler
	trafficRouting *api.TrafficRouting // the TrafficRouting that the Rollout names
	// pods are the new pods. They were read when their owner had the resourceVersion podsOwnerVersion. podsUpToDate is
	// true if they are no older than that version. podLabelCache is nil if the observation does not read labels.
	pods             []metav1.PartialObjectMetadata
	podsOwnerVersion string
	podsUpToDate     bool
	podLabelCache    *podLabelCache
	problems         []rollout.Problem
	// unroutable are the problems with gateway objects of kinds without a script. They come before all others, so that
	// a user does not first install a kind, or grant it, in vain.
	unroutable []rollout.Problem

	// needProblem is about objects that stable pods need and may lose.
	needProblem *rollout.Problem
	// coverageProblem is about policies that cover the stable version only.
	coverageProblem *rollout.Problem

	// liveParts are the parts that the client read from the API server, or got as the answer to a write, and not from a
	// watch.
	liveParts partSet
	// replicaSetsVersion is the resourceVersion of the list of ReplicaSets, if it is live.
	replicaSetsVersion string
	// scriptsName and scriptsFingerprint identify the ConfigMap of users that was read.
	scriptsName, scriptsFingerprint string
	// templates are the templates of metrics that were read.
	templates map[trackedItem]itemVersion
	// dependencies are the states of the objects that routes depend on, such as Gateways and their classes.
	dependencies map[trackedItem]itemVersion
}

// FleetGeneration is the Generation of the fleet's order that the snapshot has.
func (s *Snapshot) FleetGeneration() int64 { return s.order.Generation }

// AddProblem shows a problem of an action, until the next observation.
func (s *Snapshot) AddProblem(p rollout.Problem) {
	s.problems = append(s.problems, p)
	s.updateView()
}

// updateView builds the view for the core from the objects.
func (s *Snapshot) updateView() {
	r := s.rollout
	uid := string(r.UID)
	s.Seen = rollout.Seen{
		Namespace: r.Namespace, Name: r.Name, UID: uid, Generation: r.Generation,
		Deleting:  r.DeletionTimestamp != nil,
		Finalizer: slices.Contains(r.Finalizers, api.FinalizerRollout),
		Spec:      s.spec, Status: *r.Status.DeepCopy(),
		Editor:   statusEditor(r),
		Problems: s.sortedProblems(),
	}
	if r.Spec.Fleet != nil && *r.Spec.Fleet == s.orderedBy {
		s.Seen.Permit, s.Seen.Blocked, s.Seen.OrderRefused = s.order.Permit, s.order.Blocked, s.order.Refused
	}
	s.Seen.PermitUsed, s.Seen.Rival = permitUsed(r), s.rival
	s.Seen.Workload = s.observeWorkload()
	if s.canary != nil {
		c := workload.ObserveCanary(s.canary, s.replicaSets, r.Name, uid)
		c.Batches, _ = s.observePodBatches()
		s.Seen.Canary = &c
	}
	for _, b := range s.backends {
		s.Seen.Backends = append(s.Seen.Backends, s.observeBackend(b))
	}
	s.Seen.TrafficRouting = s.observeTrafficRouting()
	s.Seen.Autoscalers = s.observeAutoscalers()
	s.Seen.AtRisk, s.Seen.Uncovered, s.Seen.Torn = s.needProblem, s.coverageProblem, s.stickySessionProblem()
	s.Seen.Dropped = s.droppedMatchProblem()
	steps := s.stepsToRender()
	for _, g := range s.gateways {
		s.Seen.Routes = append(s.Seen.Routes, g.observeRoute(s.releaseFor(g), g.withoutDroppedMatches(steps, s.currentStep())))
	}
}

func (s *Snapshot) observeWorkload() *rollout.Workload {
	var w rollout.Workload
	switch {
	case s.object.isPresent():
		w = s.object.observedOrIdle(s.rollout.Name)
		if s.releaseState().InStep() {
			w.Batches, _ = workload.CountBatches(s.livePods(), s.releaseID(w), len(s.spec.Steps))
		}
		if s.spec.RollbackInBatch {
			w.UnlabelledKept = int32(len(s.object.UnlabelledKeptPods(labelValue(rollout.RollbackID(w.RolloutID, w.Revision), w.Revision))))
		}
	case s.deployment != nil:
		d, meddled := s.ownerDeployment()
		w = workload.ObserveDeployment(d, s.replicaSets, s.rollout.Name)
		w.AutoscalerActive = meddled
		if s.spec.Style != rollout.StyleCanary {
			w.Batches, _ = s.observePodBatches()
		}
	default:
		return nil
	}
	if w.AdoptedBy != s.otherRollout {
		w.AdoptedBy = ""
	}
	return &w
}

// sortedProblems returns the problems that hide the state first, then those that stop a release, and warnings last. The
// order does not depend on the order of the reads. The status shows the first problem, and a changing message would be
// written again and again.
func (s *Snapshot) sortedProblems() []rollout.Problem {
	rank := func(p rollout.Problem) int {
		switch {
		case p.Unknown:
			return 0
		case p.Warning:
			return 2
		}
		return 1
	}
	sorted := slices.Clone(s.problems)
	slices.SortStableFunc(sorted, func(a, b rollout.Problem) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Message, b.Message))
	})
	return slices.Concat(s.unroutable, sorted)
}

// rolloutKey is the key of the Rollout.
func (s *Snapshot) rolloutKey() types.NamespacedName {
	return types.NamespacedName{Namespace: s.rollout.Namespace, Name: s.rollout.Name}
}

// stepsToRender returns the steps that a plan may use. If a release may begin, it returns all steps, so that the
// executor finds a step that it cannot route before it creates a pod. Within a step it returns that step, the next one,
// and the step that a user jumps to.
func (s *Snapshot) stepsToRender() map[int32]traffic.Strategy {
	wanted := map[int32]traffic.Strategy{}
	add := func(n int32) {
		if step, ok := s.spec.Step(n); ok && step.RoutesTraffic() {
			wanted[n] = traffic.StrategyOf(step)
		}
	}
	if n := rollout.HandBackStep(s.Seen.Workload, s.Seen.Canary); n != 0 {
		wanted[n] = s.handBackStrategy(rollout.Percent(-n))
	}
	last := int32(len(s.spec.Steps)) + 1 // the last step of a blue-green release
	if !s.releaseState().InStep() || s.hasNewVersion() {
		for n := range s.spec.Steps {
			add(int32(n + 1))
		}
		add(last)
		return wanted
	}
	current := s.currentStep()
	add(current)
	add(current + 1)
	add(last) // a user who promotes a release skips the steps between
	if c := s.rollout.Status.Common(); c != nil {
		add(c.NextStepIndex)
	}
	return wanted
}

// currentStep returns the number of the current step, or of the last one if the user has removed steps.
func (s *Snapshot) currentStep() int32 {
	return min(sluiceStatusOf(s.rollout).Step, int32(len(s.spec.Steps)))
}

// handBackStrategy returns the strategy of the current step with another share of the traffic.
func (s *Snapshot) handBackStrategy(weight rollout.Percent) traffic.Strategy {
	step, _ := s.spec.Step(s.currentStep())
	strategy := traffic.StrategyOf(step)
	strategy.Weight = &weight
	return strategy
}

// hasNewVersion reports whether the template of the workload differs from the template of the release, so that the
// release will begin again.
func (s *Snapshot) hasNewVersion() bool {
	m, w := s.rollout.Status.Sluice, s.Seen.Workload
	return m == nil || w == nil || m.CanaryRevision != w.Revision
}

func (s *Snapshot) releaseState() rollout.State {
	if s.rollout.Status.Sluice == nil {
		return rollout.StateIdle
	}
	return rollout.State(s.rollout.Status.Sluice.State)
}
