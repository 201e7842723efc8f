package planner

import (
	"fmt"
	"time"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// world is a small cluster with one Rollout, its workload of two or three pods, up to two Services with their canary Services, and up to two gateway
// objects. It is a value: a copy is a snapshot. Versions of the template are 1 to 3; 0 is no version.
type world struct {
	model *model

	gone, deleting, finalizer, disabled, paused bool
	status                                      api.RolloutStatus

	uid, template          int8 // uid 0: the workload does not exist
	born                   int8 // workloads so far
	pods                   [4]int8
	stopped, held, adopted bool
	hidden                 bool // the API server does not find the workload for a moment
	canary                 canaryWorld
	lingering              int8 // the version of pods that have outlived their canary, or 0
	services               [2]serviceWorld
	routed                 [2]int8
	routedBy               [2]bool // whether a route was made from the revised steps
	revised                bool    // the owner has replaced the first steps with the model's other steps
	agrees                 bool    // the owner accepts that steps replace all pods
	accepted               [2]bool
	now                    int
	back                   int // ghost: the total time that clocks have gone back
	budget                 int8
	left                   int     // ghost: the time at which the last route to the canary was removed
	allowed                int8    // ghost: the last step that the user has approved in this epoch
	trusted                [4]bool // ghost: versions that were approved as a whole
	stoppedVersion         int8    // ghost: the aborted version, until the template changes
	forced                 int8    // ghost: above 0 if a user resumed the held workload by force in this epoch or shortly before
	place
	capacity
	named named
	fleetWorld
	run run
}

type canaryWorld struct {
	version, replicas, ready int8 // version 0: the canary does not exist
	epoch                    int64
	deleting                 bool
}

// model is the constant part of one exploration.
type model struct {
	name    string
	spec    rollout.Spec
	other   []rollout.Step // the owner may change the steps to these, of the same number, and back; nil: the steps stay
	routes  int
	acts    int8
	surge   int32 // the owner's surge; without one, one pod may be missing
	loose   bool  // one pod may be missing in addition to a surge
	whole   bool  // all of its pods may be missing at once
	anew    bool  // its controller deletes all pods before it creates others, as with the strategy Recreate
	lever   rollout.UpdateMechanism
	scales  bool // users scale it to 0 and back
	fails   bool // its pods fail
	blinks  bool // the workload is not found for a moment
	refuses bool // its owner accepts only late that a step replaces all pods although it asks for less
	strays  bool // the selector of a stable Service matches no pod for a while
	orders  bool // its pods have ordinals, and the controller replaces them from the last one down to the partition
	most    int8 // the number of the workload's pods, up to mostPods; 0 for two
	exact   bool // no pod may be missing
	names   bool // a gateway object names a created object
	broken  int8 // the version whose pods never become ready in the workload, in place all but the first; 0 for none
	fleet   bool // a FleetRollout governs the Rollout
	pauses  api.FleetLocalPauses
	patches bool // the hub's permits set images
	check   *checks
	digest  *decisionDigest // the digest of all decisions, nil unless a flag asks for it
}

const (
	workloadSize  = 2
	mostPods      = 3
	graceOfModels = 3 // seconds
)

var start = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

func newWorld(m *model) world {
	return world{model: m, uid: 1, born: 1, template: 1, pods: [4]int8{1: m.size()}, budget: m.acts, allowed: 1, left: -graceOfModels, trusted: [4]bool{1: true}, place: newPlace(m), capacity: newCapacity(m)}
}

func (w *world) time() time.Time { return start.Add(time.Duration(w.now) * time.Second) }

func version(v int8) string {
	if v == 0 {
		return ""
	}
	return fmt.Sprintf("v%d", v)
}

func hash(v int8) string {
	if v == 0 {
		return ""
	}
	return fmt.Sprintf("h%d", v)
}

// newHash returns the hash that distinguishes pods of a new version.
func (m *model) newHash(v int8) string {
	if m.inPlace() {
		return hash(v)
	}
	return "c" + version(v)
}

func versionOf(hash string) int8 {
	if hash == "" {
		return 0
	}
	return int8(hash[1] - '0')
}

// see returns the state that an executor observes.
func (w *world) see() rollout.Seen {
	s := rollout.Seen{
		Namespace: "shop", Name: "demo", UID: "u", Deleting: w.deleting, Finalizer: w.finalizer,
		Spec: w.model.plan(w.revised), Status: w.status, Editor: "kubectl",
	}
	s.Spec.Disabled, s.Spec.Paused = w.disabled, w.paused
	if w.model.refuses && !w.agrees {
		s.Spec.Steps = withoutAllowFull(s.Spec.Steps)
	}
	if w.uid != 0 && !w.hidden {
		s.Workload = w.seeWorkload()
	}
	if c := w.canary; c.version != 0 {
		s.Canary = &rollout.Canary{
			UID: "c", Ours: true, Epoch: c.epoch, Revision: version(c.version), Observed: true, Replicas: int32(c.replicas),
			Updated: int32(c.replicas), Available: int32(c.ready), Hash: "c" + version(c.version), Deleting: c.deleting,
		}
	}
	w.seeFleet(&s)
	w.seeScaler(&s)
	w.seeServices(&s)
	for i := range w.model.routes {
		s.Routes = append(s.Routes, w.seeRoute(i))
		w.seeHandBack(&s, i)
	}
	return s
}

func (w *world) seeWorkload() *rollout.Workload {
	seen := &rollout.Workload{
		UID: fmt.Sprint(w.uid), Observed: true, DesiredReplicas: int32(w.size()), Paused: w.stopped, Revision: version(w.template),
		Adopted: w.adopted, HasMarks: w.adopted || w.held, Held: w.held, Updated: int32(w.pods[w.template]),
		Available: int32(w.model.size()), Total: int32(w.model.size()), MaxUnavailable: 1, OwnerPaused: w.model.spec.KeepPaused && w.stopped && !w.held,
		Version: fleetVersion(w.template), HistoryLimit: 10, Containers: []string{"c"},
	}
	if w.set > 0 {
		seen.Delivered = api.PermitNumber{Epoch: w.set, Seq: w.set}
	}
	for v := int8(1); v <= 3; v++ {
		if w.pods[v] > 0 || (w.model.counts() || w.model.fleet) && w.existed[v] {
			seen.Revisions = append(seen.Revisions, rollout.Revision{Hash: hash(v), Revision: version(v), Replicas: int32(w.pods[v]), Ready: int32(w.pods[v])})
		}
	}
	if w.model.inPlace() {
		w.seePlace(seen)
	}
	if w.model.counts() {
		w.seeCapacity(seen)
	}
	return seen
}

func (w *world) seeRoute(i int) rollout.Route {
	r := rollout.Route{Object: objectsOf(w.model.spec)[i], Shaped: w.routed[i] != 0, Steps: map[int32]rollout.Rendering{}}
	for n := range w.model.plan(w.revised).LastStep() {
		step := int8(n + 1)
		applied := w.routed[i] == step && w.routedBy[i] == w.revised
		r.Steps[int32(step)] = rollout.Rendering{Applied: applied, Accepted: applied && w.accepted[i], Digest: fmt.Sprint("d", step, w.revised)}
	}
	w.seeNamed(&r, i)
	return r
}

// routedToCanary reports whether a gateway object sends traffic to the canary.
func (w *world) routedToCanary() bool { return w.routed[0] != 0 || w.routed[1] != 0 }

// environment lists events that may happen by themselves, each as a move of its own.
func (w *world) environment() []move {
	var moves []move
	add := func(when bool, name string, do func(*world)) {
		if when {
			moves = append(moves, move{name: name, do: do})
		}
	}
	add(w.canary.version != 0 && !w.canary.deleting && w.canary.ready < w.canary.replicas, "a canary pod becomes ready",
		func(w *world) { w.canary.ready++; w.touched(onCanary) })
	add(w.hidden, "the workload is found again", func(w *world) { w.hidden = false; w.touched(onWorkload) })
	add(w.canary.deleting, "the canary is gone", func(w *world) { w.canary = canaryWorld{}; w.touched(onCanary) })
	add(w.lingering != 0, "the last pods of a deleted canary are gone", func(w *world) { w.lingering = 0 })
	for i := range w.model.spec.Routing {
		add(w.services[i].endpoints != w.reachable(i), "endpoints catch up", func(w *world) { w.services[i].endpoints = w.reachable(i) })
	}
	for i := range w.model.routes {
		add(w.routed[i] != 0 && !w.accepted[i], fmt.Sprintf("the gateway accepts %d", i), func(w *world) { w.accepted[i] = true })
	}
	moves = append(moves, w.strays(false)...)
	if w.model.inPlace() {
		return append(moves, w.controller()...)
	}
	moves = append(moves, w.scaled()...)
	if w.model.slow() {
		return append(moves, w.takenAtOnce()...)
	}
	if w.uid != 0 && !w.stopped {
		for v := int8(1); v <= 3; v++ {
			add(v != w.template && w.pods[v] > 0 && w.mayMiss(v), "the workload rolls a pod", func(w *world) {
				w.pods[v]--
				w.raw[v] = max(0, w.raw[v]-1)
				w.pods[w.template]++
				w.existed[w.template] = true
				if w.template == w.model.broken {
					w.raw[w.template]++
				}
				if m := machine(&w.status); m.State == string(rollout.StateDisabled) || m.FinaliseReason == api.FinaliseDisabled {
					w.trusted[w.template] = true
				}
				w.touched(onWorkload)
			})
		}
	}
	return moves
}

// move is one possible event.
type move struct {
	name string
	do   func(*world)
}
