package planner

import (
	"fmt"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// capacity is the state of a workload that gives up pods to a canary: told is its spec.replicas, and wants is the number that its owner wants.
type capacity struct {
	told, wants int8
	shrunk      bool
}

func newCapacity(m *model) capacity { return capacity{told: m.size(), wants: m.size()} }

// size returns the number of the workload's pods.
func (m *model) size() int8 {
	if m.most > 0 {
		return m.most
	}
	return workloadSize
}

func (m *model) missing() int32 {
	switch {
	case m.whole:
		return int32(m.size())
	case m.exact || m.anew:
		return 0
	}
	return 1
}

// slow reports whether a workload with a canary loses its pods before others are ready.
func (m *model) slow() bool { return !m.inPlace() && (m.whole || m.anew) }

// counts reports whether pods of a workload with a canary become ready one by one.
func (m *model) counts() bool { return m.spec.ConstantCapacity || m.slow() }

// takenAtOnce lists the moves of a controller that deletes older pods before others are ready.
func (w *world) takenAtOnce() []move {
	var moves []move
	if w.uid == 0 || w.stopped {
		return nil
	}
	for v := int8(1); v <= 3; v++ {
		if v != w.template && w.pods[v] > 0 {
			moves = append(moves, move{fmt.Sprintf("the workload takes its pods of v%d", v), func(w *world) {
				w.pods[v], w.raw[v] = 0, 0
				w.touched(onWorkload)
			}})
		}
	}
	return moves
}

// comesNext reports whether the next pod of a workload with missing pods is of a version. A paused workload without pods creates pods of the version
// that it created last.
func (w *world) comesNext(v int8) bool {
	switch {
	case !w.model.slow():
		return (w.pods[v] > 0 || w.running() == 0 && v == w.template) && (w.stopped || v == w.template || w.pods[w.template] == 0)
	case !w.stopped:
		return v == w.template && (!w.model.anew || w.running() == w.pods[v])
	case w.running() == 0:
		return v == w.current
	}
	return w.pods[v] > 0 && (!w.model.anew || w.running() == w.pods[v])
}

func (w *world) seeCapacity(seen *rollout.Workload) {
	seen.DesiredReplicas, seen.SpecReplicas, seen.ScaledDown = int32(w.wants), int32(w.told), w.shrunk
	seen.MaxUnavailable, seen.Recreate = w.model.missing(), w.model.anew
	seen.Total, seen.Available = int32(w.running()), int32(w.allReady())
	for i := range seen.Revisions {
		seen.Revisions[i].Ready -= int32(w.raw[versionOf(seen.Revisions[i].Hash)])
	}
}

// seeHandBack shows the parts of a route that matter while a workload gets its pods back.
func (w *world) seeHandBack(s *rollout.Seen, i int) {
	route := &s.Routes[i]
	switch at := w.routed[i]; {
	case at < 0:
		route.Weight = rollout.Percent(-at)
	case at > 0 && int(at) <= len(w.model.plan(w.routedBy[i]).Steps):
		if weight := w.model.plan(w.routedBy[i]).Steps[at-1].Weight; weight != nil {
			route.Weight = *weight
		}
	}
	if step := rollout.HandBackStep(s.Workload, s.Canary); step != 0 {
		applied := int32(w.routed[i]) == step
		route.Steps[step] = rollout.Rendering{Applied: applied, Accepted: applied && w.accepted[i], Digest: fmt.Sprint("d", step)}
	}
}

// scaled lists the moves of the workload's controller after a change of its replicas.
func (w *world) scaled() []move {
	var moves []move
	if !w.model.counts() || w.uid == 0 {
		return nil
	}
	for v := int8(1); v <= 3; v++ {
		if w.raw[v] > 0 && v != w.model.broken {
			moves = append(moves, move{fmt.Sprintf("a stable pod of v%d becomes ready", v), func(w *world) { w.raw[v]--; w.touched(onWorkload) }})
		}
		if w.running() < w.told && w.comesNext(v) {
			moves = append(moves, move{fmt.Sprintf("a stable pod of v%d comes", v), func(w *world) {
				w.pods[v]++
				w.raw[v]++
				w.existed[v], w.current = true, v
				if m := machine(&w.status); m.State == string(rollout.StateDisabled) || m.FinaliseReason == api.FinaliseDisabled {
					w.trusted[w.template] = true
				}
				w.touched(onWorkload)
			}})
		}
		if w.running() > w.told && !(w.model.anew && w.running() > w.pods[v]) && w.pods[v] > 0 && (w.raw[v] > 0 || w.allReady() == w.running()) {
			moves = append(moves, move{fmt.Sprintf("a stable pod of v%d goes", v), func(w *world) {
				w.pods[v]--
				w.raw[v] = max(0, w.raw[v]-1)
				w.touched(onWorkload)
			}})
		}
	}
	return moves
}

// resize carries out the actions on numbers of pods.
func (w *world) resize(a rollout.Action) {
	switch a := a.(type) {
	case rollout.ShrinkCanary:
		w.canary.replicas, w.canary.ready = int8(a.Replicas), min(w.canary.ready, int8(a.Replicas))
	case rollout.ScaleWorkload:
		w.told, w.shrunk = int8(a.Replicas), true
	case rollout.RestoreReplicas:
		w.told, w.shrunk = w.wants, false
	case rollout.ScaleRevision:
		v := versionOf(a.Hash)
		w.raw[v] = max(0, w.raw[v]+int8(a.Replicas)-w.pods[v])
		w.pods[v] = int8(a.Replicas)
	}
}

// mayMiss reports whether a rolling workload may lose a pod of a version for a new pod that is not ready.
func (w *world) mayMiss(v int8) bool {
	return w.template != w.model.broken || w.raw[v] > 0 || int32(w.allReady()) > int32(w.told)-w.model.missing()
}

// waits reports whether the workload waits for pods that never become ready, of its own version or of the stable version.
func (w *world) waits() bool {
	broken := w.model.broken
	return w.raw[broken] > 0 && (w.template == broken || machine(&w.status).StableRevision == hash(broken))
}

// bearing returns the number of ready canary pods.
func (w *world) bearing() int32 {
	if w.canary.deleting {
		return 0
	}
	return int32(w.canary.ready)
}

// capacity checks every state: enough pods of both versions are ready, and enough stable pods for their traffic.
func (c *checks) capacity(w *world) {
	if !w.model.spec.ConstantCapacity || w.uid == 0 || w.state() == rollout.StateIdle || w.state() == rollout.StateDisabled {
		return
	}
	full := int32(w.wants) - w.model.missing()
	ready := int32(w.allReady())
	c.that(ready+w.bearing() >= full, "CapacityKept", "%d stable pods and %d of the canary are ready", ready, w.bearing())
	if w.model.routes == 0 || !w.pinned(versionOf(machine(&w.status).StableRevision)) {
		return
	}
	least := rollout.Percent(100)
	for _, route := range w.see().Routes {
		least = min(least, route.Weight)
	}
	c.that(rollout.Percent(100*ready) >= (100-least)*rollout.Percent(full), "CapacityKept", "%d stable pods bear %s of the traffic", ready, 100-least)
}

// scaled checks the replicas of a workload against the observed state: the workload gets back no more pods than the canary leaves room for.
func (c *checks) scaled(seen rollout.Seen, d rollout.Decision, a rollout.ScaleWorkload) {
	w, canary := seen.Workload, seen.Canary
	c.that(a.Replicas >= 1 && a.Replicas <= w.DesiredReplicas, "PodsStayConstant", "%s of %d", a, w.DesiredReplicas)
	if rollout.State(machine(&d.Status).State).InStep() || canary == nil || canary.Deleting || canary.Available < canary.Replicas {
		return
	}
	stays, serves := canary.Replicas, false
	for _, action := range d.Actions {
		if shrunk, ok := action.(rollout.ShrinkCanary); ok {
			stays = shrunk.Replicas
		}
	}
	for _, route := range seen.Routes {
		for _, r := range route.Steps {
			if r.Applied && !r.Accepted {
				return // a slow gateway does not prevent more pods
			}
		}
		serves = serves || route.Weight > 0
	}
	if serves {
		c.that(a.Replicas+stays <= w.DesiredReplicas+1, "PodsStayConstant", "%s beside a canary of %d", a, stays)
	}
}

// handBack checks a route that takes traffic from the canary: it gives the canary nothing.
func (c *checks) handBack(w *world, a rollout.ApplyRoute) {
	for i, route := range w.see().Routes {
		if w.routeIndex(a.Object) == i {
			c.that(rollout.Percent(-a.Step) < route.Weight, "ExposureNeverAboveCommittedStep", "%s, which had %s", a, route.Weight)
		}
	}
}
