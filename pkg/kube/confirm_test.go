package kube

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
	"sluice.dev/sluice/pkg/workload"
)

func TestWhatADecisionStandsOn(t *testing.T) {
	t.Parallel()
	own := []rollout.Routing{{Service: "web", CanaryService: "web-canary"}}
	shared := []rollout.Routing{{Service: "web", CanaryService: "web"}}
	both := slices.Concat(own, shared)
	in := func(state rollout.State, reason api.FinaliseReason) api.SluiceStatus {
		return api.SluiceStatus{Epoch: 1, State: string(state), FinaliseReason: reason}
	}
	base := []part{partRollout, partWorkload}
	cases := map[string]struct {
		routing []rollout.Routing
		before  api.SluiceStatus
		next    api.SluiceStatus
		action  rollout.Action
		want    []part
	}{
		"what is only shown stands on nothing": {own, in(rollout.StatePaused, ""), in(rollout.StatePaused, ""), nil, nil},
		"an approval stands on the status":     {own, in(rollout.StatePaused, ""), in(rollout.StateReady, ""), nil, nil},
		"a release that begins":                {own, in(rollout.StateIdle, ""), api.SluiceStatus{Epoch: 2, State: string(rollout.StateInitializing)}, nil, append(base, partReplicaSets, partStableEndpoints, partRoutes)},
		"a release that was checked":           {own, in(rollout.StateInitializing, ""), in(rollout.StateBeforeUpgrade, ""), nil, append(base, partReplicaSets, partStableEndpoints, partRoutes)},
		"a release that is turned aside":       {own, in(rollout.StatePaused, ""), in(rollout.StateFinalising, api.FinaliseRollback), nil, base},
		"a release that is turned once more":   {own, in(rollout.StateFinalising, api.FinaliseSuccess), in(rollout.StateFinalising, api.FinaliseRollback), nil, base},
		"new pods":                             {own, in(rollout.StateUpgrade, ""), in(rollout.StateUpgrade, ""), rollout.CreateCanary{}, append(base, partStableService)},
		"more new pods":                        {own, in(rollout.StateUpgrade, ""), in(rollout.StateUpgrade, ""), rollout.ScaleCanary{}, append(base, partStableService)},
		"a route to a Service of its own":      {own, in(rollout.StateUpgrade, ""), in(rollout.StateUpgrade, ""), rollout.ApplyRoute{}, append(base, partEndpoints)},
		"a route to pods of a shared Service":  {shared, in(rollout.StateUpgrade, ""), in(rollout.StateUpgrade, ""), rollout.ApplyRoute{}, append(base, partCanary)},
		"a share that is handed back":          {own, in(rollout.StateAborted, ""), in(rollout.StateAborted, ""), rollout.ApplyRoute{Step: -40}, append(base, partReplicaSets)},
		"pods in the place of others":          {own, in(rollout.StateUpgrade, ""), in(rollout.StateUpgrade, ""), rollout.ScaleWorkload{}, append(base, partReplicaSets, partCanary, partStableService, partRoutes)},
		"a route beside one of another kind":   {both, in(rollout.StateUpgrade, ""), in(rollout.StateUpgrade, ""), rollout.ApplyRoute{}, append(base, partEndpoints, partCanary)},
		"a lost canary loses its traffic":      {own, in(rollout.StateUpgrade, ""), in(rollout.StateUpgrade, ""), rollout.RestoreRoute{}, append(base, partCanary)},
		"the end takes traffic back":           {own, in(rollout.StateFinalising, ""), in(rollout.StateFinalising, ""), rollout.RestoreRoute{}, base},
		"a Service is narrowed":                {own, in(rollout.StateBeforeUpgrade, ""), in(rollout.StateBeforeUpgrade, ""), rollout.PinService{}, append(base, partReplicaSets, partStableEndpoints)},
		"a Service is opened after a success":  {own, in(rollout.StateFinalising, api.FinaliseSuccess), in(rollout.StateFinalising, api.FinaliseSuccess), rollout.UnpinService{}, base},
		"a Service is opened after a rollback": {own, in(rollout.StateFinalising, api.FinaliseRollback), in(rollout.StateFinalising, api.FinaliseRollback), rollout.UnpinService{}, append(base, partReplicaSets, partCanary)},
		"the workload is let go":               {own, in(rollout.StateFinalising, ""), in(rollout.StateFinalising, ""), rollout.ResumeWorkload{}, append(base, partStableService, partRoutes)},
		"the canary goes":                      {own, in(rollout.StateFinalising, ""), in(rollout.StateFinalising, ""), rollout.DeleteCanary{}, append(base, partRoutes)},
		"its Service goes":                     {own, in(rollout.StateFinalising, ""), in(rollout.StateFinalising, ""), rollout.DeleteCanaryService{}, append(base, partRoutes, partPolicies)},
		"a release that has ended":             {own, in(rollout.StateFinalising, ""), in(rollout.StateIdle, ""), nil, []part{partCanary, partCanaryService, partRoutes}},
		"its Service comes":                    {own, in(rollout.StateUpgrade, ""), in(rollout.StateUpgrade, ""), rollout.CreateCanaryService{}, []part{partRollout}},
		"what a route will name comes":         {own, in(rollout.StateTrafficRouting, ""), in(rollout.StateTrafficRouting, ""), rollout.PrepareRoute{}, []part{partRollout}},
		"what a route named goes":              {own, in(rollout.StateFinalising, ""), in(rollout.StateFinalising, ""), rollout.ClearRoute{}, append(base, partRoutes)},
		"labels of pods":                       {own, in(rollout.StateUpgrade, ""), in(rollout.StateUpgrade, ""), rollout.LabelPods{}, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &Snapshot{rollout: &api.Rollout{Status: api.RolloutStatus{Sluice: &c.before}},
				spec: rollout.Spec{Style: rollout.StyleCanary, Routing: c.routing, Workload: rollout.Ref{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}}}
			d := rollout.Decision{Status: api.RolloutStatus{Sluice: &c.next}}
			if c.action != nil {
				d.Actions = []rollout.Action{c.action}
			}
			if diff := cmp.Diff(partsOf(c.want...), s.decisionDependsOn(d)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A governed release that begins waits for its permit. What it then stands on is read when the permit lets it go on. But if no policy has held its
// version, the release begins because old pods run, and only the API server knows whether they still do.
func TestAHeldGovernedReleaseStandsOnNothingBeforeItsPermit(t *testing.T) {
	t.Parallel()
	checks := partsOf(partRollout, partWorkload, partReplicaSets, partStableEndpoints, partRoutes)
	for name, c := range map[string]struct {
		before, next rollout.State
		epoch        int64
		held         bool
		want         partSet
	}{
		"it waits for its permit":                 {rollout.StateIdle, rollout.StateInitializing, 2, true, partSet{}},
		"it begins late and waits for its permit": {rollout.StateIdle, rollout.StateInitializing, 2, false, checks},
		"its permit lets it go on":                {rollout.StateInitializing, rollout.StateBeforeUpgrade, 1, true, checks},
		"it begins with a permit in one":          {rollout.StateIdle, rollout.StateBeforeUpgrade, 2, true, checks},
	} {
		s := &Snapshot{rollout: &api.Rollout{Spec: api.RolloutSpec{Fleet: &api.FleetReference{Namespace: "shop", Name: "web"}},
			Status: api.RolloutStatus{Sluice: &api.SluiceStatus{Epoch: 1, State: string(c.before)}}}}
		s.Seen.Workload = &rollout.Workload{Held: c.held}
		d := rollout.Decision{Status: api.RolloutStatus{Sluice: &api.SluiceStatus{Epoch: c.epoch, State: string(c.next)}}}
		if diff := cmp.Diff(c.want, s.decisionDependsOn(d)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestWhatEndsAllStandsOnAll(t *testing.T) {
	t.Parallel()
	s := &Snapshot{rollout: &api.Rollout{}, spec: rollout.Spec{Workload: rollout.Ref{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}}}
	for _, action := range []rollout.Action{rollout.DisownWorkload{}, rollout.RemoveFinalizer{}, rollout.PointCanaryService{}} {
		d := rollout.Decision{Status: api.RolloutStatus{Sluice: &api.SluiceStatus{}}, Actions: []rollout.Action{action}}
		if diff := cmp.Diff(allParts(), s.decisionDependsOn(d)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", action, diff)
		}
	}
}

func TestWhereNoReplicaSetCanBeMissing(t *testing.T) {
	t.Parallel()
	yes := true
	template := func(image string) corev1.PodTemplateSpec {
		return corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: image}}}}
	}
	set := func(image string, pods int32) *appsv1.ReplicaSet {
		return &appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{Name: image, OwnerReferences: []metav1.OwnerReference{{UID: "d", Controller: &yes}}},
			Spec:       appsv1.ReplicaSetSpec{Replicas: &pods, Template: template(image)},
		}
	}
	for name, c := range map[string]struct {
		change func(s *Snapshot)
		shown  []*appsv1.ReplicaSet
		want   bool
	}{
		"in a step":                                    {func(*Snapshot) {}, []*appsv1.ReplicaSet{set("old", 2), set("new", 1)}, true},
		"before the new one is known":                  {func(*Snapshot) {}, []*appsv1.ReplicaSet{set("old", 3)}, false},
		"where none has pods":                          {func(*Snapshot) {}, []*appsv1.ReplicaSet{set("old", 0), set("new", 0)}, false},
		"outside a step":                               {func(s *Snapshot) { s.rollout.Status.Sluice.State = string(rollout.StateFinalising) }, []*appsv1.ReplicaSet{set("old", 2), set("new", 1)}, false},
		"where the template has changed":               {func(s *Snapshot) { s.deployment.Spec.Template = template("old") }, []*appsv1.ReplicaSet{set("old", 2), set("new", 1)}, false},
		"where its controller has not seen it":         {func(s *Snapshot) { s.deployment.Generation++ }, []*appsv1.ReplicaSet{set("old", 2), set("new", 1)}, false},
		"where the workload was not read live":         {func(s *Snapshot) { s.liveParts[partWorkload] = false }, []*appsv1.ReplicaSet{set("old", 2), set("new", 1)}, false},
		"where there is no workload":                   {func(s *Snapshot) { s.deployment = nil }, []*appsv1.ReplicaSet{set("old", 2), set("new", 1)}, false},
		"where those of another workload look like it": {func(s *Snapshot) { s.deployment.UID = "other" }, []*appsv1.ReplicaSet{set("old", 2), set("new", 1)}, false},
	} {
		s := &Snapshot{
			rollout: &api.Rollout{Status: api.RolloutStatus{Sluice: &api.SluiceStatus{
				Epoch: 1, State: string(rollout.StateUpgrade), CanaryRevision: workload.TemplateRevision(template("new")),
			}}},
			deployment: &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{UID: "d"}, Spec: appsv1.DeploymentSpec{Template: template("new")}},
			liveParts:  partsOf(partWorkload),
		}
		c.change(s)
		if got := s.hasAllReplicaSets(c.shown); got != c.want {
			t.Errorf("%s: none can be missing: %t, want %t", name, got, c.want)
		}
	}
}
