package validate

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"sluice.dev/sluice/pkg/api"
)

// hubRequest is a request of a user to a hub, as a dry run. It is a command, or one of the constants.
type hubRequest string

const (
	readRelease   hubRequest = "read a release"
	nameVersion   hubRequest = "name the version of a release"
	changePlan    hubRequest = "change to another plan"
	replacePlan   hubRequest = "replace the plan by waves of its own"
	pauseInSpec   hubRequest = "pause a release in its spec"
	setOwner      hubRequest = "let another object own a FleetRollout"
	createRelease hubRequest = "create a FleetRollout with a plan"
	createOwn     hubRequest = "create a FleetRollout with waves of its own"
	deleteRelease hubRequest = "delete a FleetRollout"
	readPlan      hubRequest = "read a plan"
	readMembers   hubRequest = "read the members"
	writePlan     hubRequest = "write a plan"
	cordonMember  hubRequest = "cordon a member"
	writeStatus   hubRequest = "write the status of a release"
	writePermit   hubRequest = "write a permit"
	overrideHub   hubRequest = "override the fleet in a member"
)

// send sends the request and returns the answer of the API server.
func (r hubRequest) send(t *testing.T, client dynamic.Interface, user, release string) error {
	t.Helper()
	dry := []string{metav1.DryRunAll}
	releases, members := client.Resource(api.FleetRolloutResource()).Namespace("default"), client.Resource(api.FleetMemberResource())
	plans, targets := client.Resource(api.FleetPlanResource()), client.Resource(api.FleetTargetResource()).Namespace("default")
	patch := func(c dynamic.ResourceInterface, name, body string, subresources ...string) error {
		_, err := c.Patch(t.Context(), name, types.MergePatchType, []byte(body), metav1.PatchOptions{DryRun: dry, FieldValidation: metav1.FieldValidationStrict}, subresources...)
		return err
	}
	create := func(spec string) error {
		object := decode(t, fmt.Appendf(nil, `{"apiVersion":"sluice.dev/v1alpha1","kind":"FleetRollout","spec":%s}`, spec), "another")
		_, err := releases.Create(t.Context(), object, metav1.CreateOptions{DryRun: dry, FieldValidation: metav1.FieldValidationStrict})
		return err
	}
	switch r {
	case readRelease:
		_, err1 := releases.Get(t.Context(), release, metav1.GetOptions{})
		_, err2 := targets.List(t.Context(), metav1.ListOptions{})
		return errors.Join(err1, err2)
	case nameVersion:
		return patch(releases, release, `{"spec":{"release":{"version":"v2"}}}`)
	case changePlan:
		return patch(releases, release, `{"spec":{"plan":"hotfix"}}`)
	case replacePlan:
		return patch(releases, release, `{"spec":{"plan":null,"waves":[{"name":"all"}],"release":{"version":"v2"}}}`)
	case pauseInSpec:
		return patch(releases, release, `{"spec":{"paused":true}}`)
	case setOwner:
		return patch(releases, release, `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"gone","uid":"1"}]}}`)
	case createRelease:
		return create(`{"plan":"hotfix"}`)
	case createOwn:
		return create(`{"waves":[{"name":"all"}]}`)
	case deleteRelease:
		return releases.Delete(t.Context(), release, metav1.DeleteOptions{DryRun: dry})
	case readPlan:
		_, err := plans.Get(t.Context(), "standard", metav1.GetOptions{})
		return err
	case readMembers:
		_, err := members.List(t.Context(), metav1.ListOptions{})
		return err
	case writePlan:
		return patch(plans, "standard", `{"spec":{"namespaces":["default"]}}`)
	case cordonMember:
		return patch(members, "eu1", `{"spec":{"cordoned":{}}}`)
	case writeStatus:
		return patch(releases, release, `{"status":{"phase":"Succeeded"}}`, "status")
	case writePermit:
		return patch(targets, "released.eu1", `{"spec":{"permit":{"seq":2}}}`)
	case overrideHub:
		return overrideFleet.send(t, client.Resource(api.RolloutResource()).Namespace("default"), user, "governed")
	}
	return patch(releases, release, fmt.Sprintf(`{"status":{"command":{"action":%q,"epoch":0,"actor":%q}}}`, r, user), "status")
}

func hubCommand(action api.FleetCommandAction) hubRequest { return hubRequest(action) }

// createHub creates the objects that the requests are about.
func (s server) createHub(t *testing.T) {
	t.Helper()
	for _, object := range []string{
		`{"kind":"FleetMember","metadata":{"name":"eu1"},"spec":{"key":"U` + strings.Repeat("A", 55) + `"}}`,
		`{"kind":"FleetPlan","metadata":{"name":"standard"},"spec":{"waves":[{"name":"all"}]}}`,
		`{"kind":"FleetRollout","metadata":{"name":"released"},"spec":{"plan":"standard"}}`,
		`{"kind":"FleetRollout","metadata":{"name":"owned"},"spec":{"plan":"standard"}}`,
		`{"kind":"FleetTarget","metadata":{"name":"released.eu1"},"spec":{"cluster":"eu1","permit":{"epoch":1,"seq":1,"verb":"Release"}}}`,
	} {
		object := decode(t, []byte(object), "")
		object.SetAPIVersion(api.FleetGroupVersion().String())
		s.create(t, object)
	}
	s.create(t, decode(t, []byte(governedRollout), "governed"))
}

// checkFleetRoles plays each request with each shipped role. A user has the name of the role that is bound to it.
func (s server) checkFleetRoles(t *testing.T) {
	s.createHub(t)
	s.kubectl(t, "apply", "-f", filepath.Join(Root(t), "deploy", "rbac", "fleet.yaml"))
	const platform, app, ci, viewer = "platform", "app", "ci", "viewer"
	for _, role := range []string{platform, viewer} {
		s.kubectl(t, "create", "clusterrolebinding", role, "--clusterrole=sluice-fleet-"+role, "--user="+role)
	}
	for _, role := range []string{app, ci} {
		s.kubectl(t, "create", "rolebinding", role, "--clusterrole=sluice-fleet-"+role, "--user="+role)
	}
	s.kubectl(t, "create", "clusterrolebinding", "clusters", "--clusterrole=sluice-fleet-clusters", "--user="+app, "--user="+ci)
	needs := func(command, verb string) string {
		return fmt.Sprintf("to give the command %s, you need the verb %s on this FleetRollout", command, verb)
	}
	const (
		hotfix    = "to use the FleetPlan hotfix in this namespace, you need the verb use on it: name another plan, or ask the platform team"
		ownSpec   = "to change more than spec.release, you need the verb update on this FleetRollout"
		ownStatus = "the executor writes the status of a FleetRollout"
	)
	all, teams, releasers := []string{platform, app, ci, viewer}, []string{platform, app}, []string{platform, app, ci}
	for request, c := range map[hubRequest]struct {
		may []string
		// refusal is the sentence of the policy, for users whose right to patch gets them as far.
		refusal string
		far     []string
	}{
		readRelease:                          {may: all},
		nameVersion:                          {may: releasers},
		changePlan:                           {may: teams, refusal: hotfix, far: releasers},
		replacePlan:                          {may: teams, refusal: ownSpec, far: releasers},
		pauseInSpec:                          {may: teams, refusal: ownSpec, far: releasers},
		setOwner:                             {may: teams, refusal: ownSpec, far: releasers},
		createRelease:                        {may: teams},
		createOwn:                            {may: teams},
		deleteRelease:                        {may: teams},
		readPlan:                             {may: all},
		readMembers:                          {may: all},
		writePlan:                            {may: []string{platform}},
		cordonMember:                         {may: []string{platform}},
		writeStatus:                          {refusal: ownStatus, far: releasers},
		writePermit:                          {},
		overrideHub:                          {may: []string{platform}},
		hubCommand(api.FleetCommandPause):    {teams, needs("Pause", "pause"), releasers},
		hubCommand(api.FleetCommandResume):   {teams, needs("Resume", "pause"), releasers},
		hubCommand(api.FleetCommandApprove):  {releasers, needs("Approve", "approve"), releasers},
		hubCommand(api.FleetCommandReject):   {releasers, needs("Reject", "approve"), releasers},
		hubCommand(api.FleetCommandRollback): {teams, needs("Rollback", "rollback"), releasers},
		hubCommand(api.FleetCommandAbort):    {teams, needs("Abort", "abort"), releasers},
		hubCommand(api.FleetCommandRetry):    {teams, needs("Retry", "skip"), releasers},
		hubCommand(api.FleetCommandSkip):     {teams, needs("Skip", "skip"), releasers},
		hubCommand(api.FleetCommandPromote):  {[]string{platform}, needs("Promote", "expedite"), releasers},
		hubCommand(api.FleetCommandUnblock):  {[]string{platform}, needs("Unblock", "unblock"), releasers},
	} {
		for _, user := range all {
			client := s.impersonate(t, rest.ImpersonationConfig{UserName: user})
			t.Run(fmt.Sprintf("%s: %s", user, request), func(t *testing.T) {
				err := request.send(t, client, user, "released")
				switch {
				case slices.Contains(c.may, user):
					s.checkAnswer(t, err, "")
				case slices.Contains(c.far, user):
					s.checkAnswer(t, err, c.refusal)
				case !apierrors.IsForbidden(err) || strings.Contains(err.Error(), "ValidatingAdmissionPolicy"):
					t.Errorf("got the error %v, want a refusal by the roles", err)
				}
			})
		}
	}
}

// narrowRoles give rights for single objects, and in another namespace.
const narrowRoles = `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: patcher}
rules:
- {apiGroups: [sluice.dev], resources: [fleetrollouts, fleetrollouts/status], verbs: [create, patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: patcher}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: patcher}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: owner}
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: neighbour}
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: planner}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: release-owner}
rules:
- {apiGroups: [sluice.dev], resources: [fleetrollouts], resourceNames: [owned], verbs: [abort]}
- {apiGroups: [sluice.dev], resources: [fleetplans], resourceNames: [slow], verbs: [use]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: release-owner}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: release-owner}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: owner}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: hotfix-user}
rules:
- {apiGroups: [sluice.dev], resources: [fleetplans], resourceNames: [hotfix], verbs: [use]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: hotfix-user}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: hotfix-user}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: planner}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: neighbour, namespace: kube-public}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: sluice-fleet-app}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: neighbour}]`

// checkNarrowVerbs needs the objects and roles of checkFleetRoles.
func (s server) checkNarrowVerbs(t *testing.T) {
	s.apply(t, narrowRoles)
	const (
		toAbort = "to give the command Abort, you need the verb abort on this FleetRollout"
		toPlan  = "to use the FleetPlan hotfix in this namespace, you need the verb use on it"
	)
	abort := hubCommand(api.FleetCommandAbort)
	for name, c := range map[string]struct {
		user, release string
		request       hubRequest
		refusal       string
	}{
		"a verb for one FleetRollout counts for it":           {"owner", "owned", abort, ""},
		"a verb for one FleetRollout does not count for all":  {"owner", "released", abort, toAbort},
		"one verb is not another":                             {"owner", "owned", hubCommand(api.FleetCommandPause), "you need the verb pause"},
		"a verb in another namespace does not count":          {"neighbour", "released", abort, toAbort},
		"the use of one plan is not the use of another":       {"owner", "owned", changePlan, toPlan},
		"the use of a plan in another namespace is none here": {"neighbour", "released", changePlan, toPlan},
		"the use of a plan in all namespaces counts":          {"planner", "released", changePlan, ""},
		"a FleetRollout is not created with a plan of others": {"owner", "", createRelease, toPlan},
		"a FleetRollout is created with a plan of one's own":  {"planner", "", createRelease, ""},
		"waves of its own need no use of a plan":              {"neighbour", "", createOwn, ""},
		"a change of the version needs no use of the plan":    {"neighbour", "released", nameVersion, ""},
	} {
		t.Run(name, func(t *testing.T) {
			client := s.impersonate(t, rest.ImpersonationConfig{UserName: c.user})
			s.checkAnswer(t, c.request.send(t, client, c.user, c.release), c.refusal)
		})
	}
}
