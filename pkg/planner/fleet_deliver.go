package planner

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// This file sets the images of a permit. The executor sets them once for each permit, together with the hold. It never sets them again after a client has
// changed the template since.

// permitRevision returns the template that the last permit is about. For a permit with images, that is the template that results from them. It is "" if
// there is no such template.
func (p *planner) permitRevision() string {
	f := p.status.Fleet
	switch {
	case f.Permit == nil:
		return ""
	case len(f.Permit.Images) == 0:
		return f.Permit.Revision
	case f.Delivered.Number() == f.Permit.Number():
		return f.Delivered.Revision
	}
	return ""
}

// setsImages reports whether the last permit sets the images of the workload.
func (p *planner) setsImages() bool {
	return p.governed() && p.seen.Workload != nil && p.status.Fleet.Permit != nil && len(p.status.Fleet.Permit.Images) > 0 && !p.permitOfAnother()
}

// noteDelivery records the template that results from the images of the permit. If another client has delivered the version before, nothing is to be set.
func (p *planner) noteDelivery() {
	if !p.setsImages() {
		return
	}
	f, w := p.status.Fleet, p.seen.Workload
	if f.Delivered.Number() != f.Permit.Number() && w.Version.Named(f.Permit.Version) && w.Version.Images == api.FleetImagesDigest(f.Permit.Images) {
		f.Delivered = &api.FleetDelivered{Epoch: f.Permit.Epoch, Seq: f.Permit.Seq, Revision: w.Revision}
	}
}

// undelivered reports whether the executor has still to set the images of the permit.
func (p *planner) undelivered() bool {
	if !p.setsImages() {
		return false
	}
	permit := p.status.Fleet.Permit.Number()
	return p.status.Fleet.Delivered.Number() != permit && p.seen.Workload.Delivered != permit
}

// takenBack reports whether a client has changed the template after the executor had set the images of the permit, and before the release has completed.
func (p *planner) takenBack() bool {
	if !p.setsImages() || p.undelivered() {
		return false
	}
	delivered := p.permitRevision()
	return p.seen.Workload.Revision != delivered &&
		(delivered == "" || !slices.ContainsFunc(p.status.Fleet.Served, func(v api.FleetVersion) bool { return v.Revision == delivered }))
}

// deliveryRefusal returns why the images of the permit do not come into the template, nil if they do.
func (p *planner) deliveryRefusal() *refusal {
	f, w, of := p.status.Fleet, p.seen.Workload, p.seen.Spec.Workload
	refuse := func(reason, format string, args ...any) *refusal {
		return &refusal{reason, fmt.Sprintf(format, args...)}
	}
	if p.takenBack() {
		return refuse(api.FleetReasonTakenBack, "the executor has set the images of %s, and %s has changed its template since; stop that client, or let it deliver the versions "+
			"(spec.delivery External), and type at the hub: sluice fleet retry %s CLUSTER -n %s", of, p.templateClient(), f.FleetRollout.Name, f.FleetRollout.Namespace)
	}
	if !p.undelivered() {
		return nil
	}
	given, wanted := slices.Sorted(maps.Keys(f.Permit.Images)), slices.Sorted(slices.Values(w.Containers))
	switch permit := f.Permit; {
	case permit.Verb == api.FleetVerbHold:
		return p.heldByFleet()
	case slices.ContainsFunc(f.Blocked, func(b api.FleetBlock) bool { return b.Version == permit.Version && !b.Unblocked }):
		return refuse(api.FleetReasonBlocked, "the fleet has withdrawn %s", permit.Version)
	case p.permitExpired():
		return p.expiredPermit()
	case !slices.Equal(given, wanted):
		return refuse(api.FleetReasonContainersDiffer, "the release has images for %s, and the containers of %s are %s; release images for exactly these",
			strings.Join(given, ", "), of, strings.Join(wanted, ", "))
	}
	return nil
}

// templateClient returns the client that changed the template of the workload last, for messages.
func (p *planner) templateClient() string { return cmp.Or(p.seen.Workload.TemplateManager, "a client") }

// showDeliveryProblem shows, while the Rollout is idle, why the images of the permit do not come into the template. It reports whether there is such a problem.
func (p *planner) showDeliveryProblem() bool {
	refusal := p.deliveryRefusal()
	if refusal == nil || refusal.reason != api.FleetReasonTakenBack && refusal.reason != api.FleetReasonContainersDiffer {
		return false
	}
	p.holdFor(rollout.Problem{Reason: api.Reason(refusal.reason), Message: refusal.message})
	return true
}

// imagesDelivered reports whether the planner may go on: no images are to be set, or it may not set them. Otherwise it sets them.
func (p *planner) imagesDelivered() bool {
	if !p.undelivered() || p.deliveryRefusal() != nil {
		return true
	}
	permit := p.status.Fleet.Permit
	version, named := strings.CutPrefix(permit.Version, api.PrefixFleetVersion)
	if !named {
		version = ""
	}
	p.addActions(rollout.SetImages{Workload: p.seen.Spec.Workload, Images: permit.Images, Version: version, Permit: permit.Number()})
	p.commitFirst = true // the permit
	return false
}

// returnGivesWay reports whether the executor sets the images of the next permit while a release goes back to the version before. Such a release needs no permit,
// and may wait for a person of the cluster.
func (p *planner) returnGivesWay() bool {
	return p.governed() && !p.needsPermit() && !p.overridden() && !p.imagesDelivered()
}

// answerDelivery returns what the Rollout does about a permit that sets images, as long as these are not in the template. ok is false for another permit.
func (p *planner) answerDelivery() (state api.FleetReportState, reason string, ok bool) {
	refusal := p.deliveryRefusal()
	if refusal == nil {
		return api.FleetReportProgressing, "", p.undelivered()
	}
	switch refusal.reason {
	case api.FleetReasonTakenBack, api.FleetReasonContainersDiffer:
		return api.FleetReportFailed, refusal.reason, true
	case api.FleetReasonAtHold:
		return api.FleetReportAtHold, refusal.reason, true
	}
	return api.FleetReportHeld, refusal.reason, true
}
