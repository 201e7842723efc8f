package receiver

import (
	"context"
	"fmt"
	"net/http"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/event"
)

// permissionsOf returns what the sender of an event needs.
func permissionsOf(r event.Request) []Permission {
	p := Permission{Verb: r.Verb(), Resource: api.RolloutResource(), Namespace: r.About.Namespace, Name: r.About.Name}
	if !r.About.Fleet {
		return []Permission{p}
	}
	p.Resource = api.FleetRolloutResource()
	if p.Verb != event.VerbUse {
		return []Permission{p}
	}
	p.Verb = event.VerbRelease
	return []Permission{p, {Verb: event.VerbUse, Resource: api.FleetPlanResource(), Namespace: p.Namespace, Name: r.Release.Plan}}
}

// String describes what the permission allows.
func (p Permission) String() string {
	kind := map[string]string{
		api.RolloutResource().Resource: "Rollout", api.FleetRolloutResource().Resource: "FleetRollout", api.FleetPlanResource().Resource: "FleetPlan",
	}[p.Resource.Resource]
	if p.Resource == api.FleetPlanResource() {
		return fmt.Sprintf("%s %s %s in namespace %s", p.Verb, kind, p.Name, p.Namespace)
	}
	return fmt.Sprintf("%s %s %s/%s", p.Verb, kind, p.Namespace, p.Name)
}

// role is the shipped ClusterRole with the fewest rights that has the permission.
func (p Permission) role() string {
	switch {
	case p.Resource == api.RolloutResource():
		return "sluice-approver"
	case p.Resource == api.FleetPlanResource():
		return "sluice-fleet-app"
	}
	return "sluice-fleet-ci"
}

// checkPermission asks the API server whether a caller has a permission. Without it, refused is the answer.
func (d *Receiver) checkPermission(ctx context.Context, a answer, caller Caller, p Permission) (refused answer, ok bool) {
	may, err := d.AccessControl.Authorize(ctx, caller, p)
	if err != nil {
		d.Logger.Error("cannot find out what a caller may do; the watcher must be allowed to create subjectaccessreviews.authorization.k8s.io", "error", err)
		return a.withUnavailable("The API server does not say what you may do; send the same event again in a moment."), false
	}
	if may {
		return a, true
	}
	d.Logger.Info("a caller was refused at the receiver", "user", caller.Username, "namespace", p.Namespace, "resource", p.Resource.Resource, "name", p.Name, "verb", p.Verb, "id", a.id)
	a.status = http.StatusForbidden
	return a.withRefusal(api.RefusalNotAllowed, fmt.Sprintf("User %q may not %s. An administrator allows it with: "+
		"kubectl create rolebinding NAME -n %s --clusterrole=%s --user=%q", caller.Username, p, p.Namespace, p.role(), caller.Username)), false
}
