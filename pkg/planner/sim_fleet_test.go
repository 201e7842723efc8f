package planner

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// fleetWorld is the hub of a Rollout that a fleet governs: the last permit that it has given.
type fleetWorld struct {
	outside bool // the owner has taken spec.fleet away
	verb    api.FleetVerb
	about   int8 // the version of the permit, 0 for none
	holdAt  int8
	expired bool  // the permit came after its time
	revised bool  // the permit is for the model's other steps
	images  bool  // the permit sets the images
	set     int64 // the mark on the workload: the permit whose images were set last
	seq     int64
	fence   int64    // the annotation that records the last permit in use
	refused [4]int64 // the permit that has withdrawn a version, 0 for none
	freed   [4]int64 // the permit that has unblocked it, 0 for none
	begun   int64    // ghost: the last permit that a release has used
	begunBy int64    // ghost: that release
	imaged  int64    // ghost: the last permit whose images the executor has set
}

var fleetOfModels = &api.FleetReference{Namespace: "shop", Name: "demo"}

// fleetVersion returns the names of a version.
func fleetVersion(v int8) api.FleetVersion {
	return api.FleetVersion{Version: version(v), Images: imageDigests[v], Revision: version(v)}
}

// imagesOfModels returns the images of a version.
func imagesOfModels(v int8) map[string]string { return map[string]string{"c": "c:" + version(v)} }

// imageDigests are the digests of these images.
var imageDigests = [4]string{api.FleetImagesDigest(imagesOfModels(0)), api.FleetImagesDigest(imagesOfModels(1)), api.FleetImagesDigest(imagesOfModels(2)), api.FleetImagesDigest(imagesOfModels(3))}

func fleetKey(v int8) string { return api.FleetRelease{Version: version(v)}.Key() }

// seeFleet shows what the executor has received from the hub.
func (w *world) seeFleet(s *rollout.Seen) {
	if !w.model.fleet {
		return
	}
	if w.fence > 0 {
		s.PermitUsed = api.PermitNumber{Epoch: w.fence, Seq: w.fence}
	}
	if w.outside {
		return
	}
	s.Spec.Fleet = fleetOfModels
	if w.seq == 0 {
		return
	}
	for v := int8(1); v <= 3; v++ {
		if w.refused[v] > 0 || w.freed[v] > 0 {
			s.Blocked = append(s.Blocked, api.FleetBlock{Version: fleetKey(v), Epoch: max(w.refused[v], w.freed[v]), Unblocked: w.freed[v] > 0})
		}
	}
	s.Permit = &api.FleetPermit{Epoch: w.seq, Seq: w.seq, Verb: w.verb, HoldAt: int32(w.holdAt), LocalPauses: w.model.pauses}
	if w.about != 0 {
		s.Permit.Version = fleetKey(w.about)
	}
	if w.verb == api.FleetVerbRelease || w.verb == api.FleetVerbHold {
		s.Permit.Revision, s.Permit.PlanHash = version(w.about), w.model.plan(w.fleetWorld.revised).Hash
	}
	if w.fleetWorld.images {
		s.Permit.Revision, s.Permit.Images = "", imagesOfModels(w.about)
	}
	if w.expired {
		past := metav1.NewMicroTime(start.Add(-time.Hour * 24))
		s.Permit.NotAfter = &past
	}
}

// give is a permit of the hub.
func (w *world) give(verb api.FleetVerb, about, holdAt int8, expired bool) {
	w.seq++
	w.verb, w.about, w.holdAt, w.expired, w.fleetWorld.revised, w.images = verb, about, holdAt, expired, w.revised, false
	switch verb {
	case api.FleetVerbWithdraw:
		w.refused[about], w.freed[about] = w.seq, 0
	case api.FleetVerbRelease:
		if w.refused[about] > 0 {
			w.refused[about], w.freed[about] = 0, w.seq
		}
	}
}

// hubActs lists what the hub may do at any time.
func (w *world) hubActs() []move {
	if !w.model.fleet || w.uid == 0 || w.hidden {
		return nil
	}
	var moves []move
	for v := int8(1); v <= 3; v++ {
		if w.pods[v] > 0 || v == w.template {
			moves = append(moves, move{fmt.Sprintf("the hub withdraws v%d", v), func(w *world) { w.give(api.FleetVerbWithdraw, v, 0, false) }})
		}
	}
	t := w.template
	for v := int8(2); v <= 3 && w.model.patches; v++ {
		if v != t && w.refused[v] == 0 {
			moves = append(moves, move{fmt.Sprintf("the hub permits the first step of v%d with its images", v), func(w *world) { w.give(api.FleetVerbRelease, v, 1, false); w.images = true }})
		}
	}
	if w.images && w.verb == api.FleetVerbRelease {
		moves = append(moves, move{"the hub holds with images", func(w *world) { w.give(api.FleetVerbHold, w.about, 0, false); w.images = true }})
	}
	return append(moves,
		move{"the hub aborts", func(w *world) { w.give(api.FleetVerbAbort, 0, 0, false) }},
		move{"the hub holds", func(w *world) { w.give(api.FleetVerbHold, t, 0, false) }},
		move{"the hub permits the first step", func(w *world) { w.give(api.FleetVerbRelease, t, 1, false) }},
		move{"the hub permits all", func(w *world) { w.give(api.FleetVerbRelease, t, 0, false) }},
		move{"a permit comes too late", func(w *world) { w.give(api.FleetVerbRelease, t, 0, true) }},
		move{"spec.fleet is turned", func(w *world) { w.outside = !w.outside; w.touched(onRollout) }},
	)
}

// hubHelps lists the permits that continue a release.
func (w *world) hubHelps() []move {
	if !w.model.fleet || w.outside || w.uid == 0 || w.hidden || w.status.Fleet == nil {
		return nil
	}
	p := newPlanner(w.see(), w.time())
	p.readPermit()
	if w.state() == rollout.StateAborted && p.blockedKey(fleetVersion(w.template)) != "" {
		return w.rollsBack(p)
	}
	if w.state() != rollout.StateInitializing && !w.state().InStep() {
		return nil
	}
	if w.state().InStep() && version(w.template) != machine(&w.status).CanaryRevision {
		return nil // the release ends first
	}
	next := w.step() + 1
	if w.state() == rollout.StateInitializing {
		next = 1
	}
	refusal := p.fleetRefusal(int32(next))
	if refusal == nil && w.state() == rollout.StateInitializing && w.running() == w.pods[w.template] { // the workload has no older pods, so the release would end at once
		refusal = p.fleetRefusal(int32(len(w.agreed().Steps)) + 1)
	}
	if refusal == nil && w.status.Sluice.PlanHash != p.seen.Spec.Hash {
		refusal = p.fleetRefusal(int32(w.step()))
	}
	switch {
	case refusal == nil:
		return nil
	case refusal.reason == api.FleetReasonBlocked:
		if w.state() != rollout.StateInitializing {
			return nil
		}
		return w.rollsBack(p)
	}
	moves := []move{{"the hub permits all", func(w *world) { w.give(api.FleetVerbRelease, w.template, 0, false) }}}
	if w.state() == rollout.StateInitializing {
		moves = append(moves, move{"the hub permits the first step", func(w *world) { w.give(api.FleetVerbRelease, w.template, 1, false) }})
	}
	return moves
}

// takenBack reports whether the hub takes a version back, or brings in another one, so that its order decides where a release ends.
func (w *world) takenBack() bool {
	return w.images && w.verb == api.FleetVerbRelease || w.verb == api.FleetVerbWithdraw || w.verb == api.FleetVerbAbort || w.refused != [4]int64{} || w.outside
}

// retryRefused reports whether an aborted release cannot be tried again.
func (w *world) retryRefused() bool {
	p := newPlanner(w.see(), w.time())
	p.readPermit()
	return p.withdrawn()
}

// rollsBack is what a user does with a withdrawn version in the template.
func (w *world) rollsBack(p *planner) []move {
	back := versionOf(machine(&w.status).StableRevision)
	if back == 0 || back == w.template || p.blockedKey(fleetVersion(back)) != "" {
		return []move{{"the hub unblocks the version", func(w *world) { w.give(api.FleetVerbRelease, w.template, 0, false) }}}
	}
	return []move{{"the withdrawn version is rolled back", func(w *world) { w.change(back) }}}
}

// appendFleet appends the parts of the status about the fleet.
func (w *world) appendFleet(b []byte, s *api.RolloutStatus) []byte {
	f := s.Fleet
	if f == nil {
		return append(b, '~')
	}
	b = append(b, '~', '~')
	if permit := f.Permit; permit != nil {
		b = append(append(append(append(b, permit.Verb...), permit.Version...), permit.PlanHash...), byte(permit.HoldAt))
		b = appendBools(b, permit.Seq == w.seq, permit.NotAfter != nil, permit.Seq > w.fence)
	}
	if d := f.Delivered; d != nil {
		b = appendBools(append(b, d.Revision...), f.Permit != nil && d.Seq == f.Permit.Seq)
	}
	if use := f.Used; use != nil {
		b = appendBools(b, use.Epoch == 0, use.Release == s.Sluice.Epoch, use.Failure != "", f.Permit != nil && use.Seq < f.Permit.Seq, use.Seq > w.fence)
		b = append(b, use.Revision...)
	}
	for _, v := range f.Served {
		b = appendBools(append(append(b, '.'), v.Revision...), len(v.Keys()) > 0)
	}
	for _, v := range f.Blocked {
		b = appendBools(append(append(b, ':'), v.Version...), v.Unblocked)
	}
	b = append(append(append(b, '/'), f.Releasing.Revision...), f.Unpermitted...)
	return appendBools(b, f.Override != nil && f.Override.Release == s.Sluice.Epoch, f.Override != nil && f.Permit != nil && f.Override.Seq < f.Permit.Seq, f.UnreadySince != nil)
}

func (w *world) appendHub(b []byte) []byte {
	b = append(append(b, w.verb...), byte(w.about), byte(w.holdAt))
	b = appendBools(b, w.outside, w.expired, w.fleetWorld.revised, w.fence == w.seq, w.begun == w.seq, w.begun > w.fence, w.begunBy == machine(&w.status).Epoch, w.images, w.set == w.seq, w.imaged == w.seq)
	for v := range w.refused {
		b = appendBools(b, w.refused[v] > 0, w.freed[v] > 0)
	}
	return b
}

// fleetCommitted checks a commit that brings in more of a new version: the hub has permitted it, and no other release has used the permit.
func (c *checks) fleetCommitted(w *world, next *api.RolloutStatus) {
	if f := next.Fleet; f != nil && f.Permit != nil && f.Permit.Verb == api.FleetVerbRelease && f.Permit.LocalPauses == api.FleetLocalPausesPass {
		if w.allowed = max(w.allowed, int8(f.Permit.HoldAt)); f.Permit.HoldAt == 0 {
			w.allowed = int8(len(w.agreed().Steps)) + 1
		}
	}
	before, after := machine(&w.status), machine(next)
	in, same := rollout.State(after.State).InStep(), before.Epoch == after.Epoch
	begins := in && !(same && rollout.State(before.State).InStep())
	succeeds := after.State == string(rollout.StateFinalising) && after.FinaliseReason == api.FinaliseSuccess && !(same && before.State == after.State && before.FinaliseReason == after.FinaliseReason)
	if !w.model.fleet || w.outside || !begins && !succeeds && !(in && after.Step > before.Step) {
		return
	}
	v, f := versionOf(after.CanaryRevision), next.Fleet
	if version(versionOf(after.StableRevision)) == after.CanaryRevision || after.RollbackReplicas > 0 {
		return // it brings in nothing new
	}
	if f == nil {
		c.fail("NothingBeyondThePermit", "%s of %s without a fleet", after.State, after.CanaryRevision)
		return
	}
	c.that(w.refused[v] == 0 || f.Permit == nil || f.Permit.Seq < w.refused[v], "WithdrawnVersionStaysOut", "%s of %s, which the hub has withdrawn", after.State, after.CanaryRevision)
	goesBack := len(f.Served) > 1 && f.Served[1].Revision == after.CanaryRevision &&
		!slices.ContainsFunc(f.Blocked, func(b api.FleetBlock) bool { return b.Version == fleetKey(v) }) // not a version that was withdrawn once
	if goesBack || f.Override != nil && f.Override.Release == after.Epoch {
		return
	}
	step := after.Step
	if succeeds {
		step = int32(len(w.agreed().Steps)) + 1
	}
	permit := f.Permit
	c.that(permit != nil && permit.Verb == api.FleetVerbRelease && permit.Version == fleetKey(v) && permit.NotAfter == nil &&
		(permit.HoldAt == 0 || step <= permit.HoldAt), "NothingBeyondThePermit", "step %d of %s under %+v", step, after.CanaryRevision, permit)
	if permit == nil {
		return
	}
	c.that(w.begunBy == after.Epoch || permit.Seq > w.begun, "PermitBeginsOneRelease", "release %d of %s under permit %d, which release %d has used", after.Epoch, after.CanaryRevision, permit.Seq, w.begunBy)
	c.that(w.fence >= permit.Seq, "PermitBeginsOneRelease", "permit %d is used before that is recorded", permit.Seq)
	w.begun, w.begunBy = permit.Seq, after.Epoch
}

// reported checks the answer to a permit.
func (c *checks) reported(w *world, d rollout.Decision) {
	r := d.Report
	if r == nil || r.State != api.FleetReportCompleted || w.run.moved != 0 || len(d.Actions) > 0 {
		return
	}
	switch permit := d.Status.Fleet.Permit; permit.Verb {
	case api.FleetVerbWithdraw:
		for v := int8(1); v <= 3; v++ {
			gone := w.pods[v] == 0 && w.canary.version != v
			c.that(gone || permit.Version != fleetKey(v), "WithdrawnMeansGone", "v%d is reported as withdrawn and has %d pods: %+v", v, w.pods[v], d.Status.Fleet)
		}
	case api.FleetVerbRelease:
		others := 0
		for v := int8(1); v <= 3; v++ {
			if permit.Version != fleetKey(v) && !slices.Contains([]rollout.State{rollout.StateInitializing, rollout.StateAborted}, w.state()) {
				others += int(w.pods[v])
			}
		}
		c.that(others == 0 || w.state().InStep() || w.forced > 0, "CompletedMeansWhole", "%s is reported as completed with %d pods of others in %s: %+v", permit.Version, others, w.state(), d.Status.Fleet)
	}
}
