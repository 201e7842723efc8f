package validate

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"sluice.dev/sluice/pkg/api"
)

// governedRollout is a Rollout during a release that a fleet governs.
const governedRollout = `{"apiVersion":"rollouts.kruise.io/v1beta1","kind":"Rollout","metadata":{"name":"governed"},"spec":{
	"workloadRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"demo"},"fleet":{"namespace":"releases","name":"checkout"},
	"strategy":{"canary":{"steps":[{"replicas":1}]}}},
	"status":{"phase":"Progressing","currentStepIndex":1,"currentStepState":"StepPaused","sluice":{"epoch":3,"step":1,"state":"StepPaused","pauseSeq":1}}}`

// fleetRoles give users the rights that they have in a cluster of a fleet. Only lead and owner have the verb override, and
// owner has it for one Rollout.
const fleetRoles = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: rollout-editor}
rules:
- {apiGroups: [rollouts.kruise.io], resources: [rollouts, rollouts/status], verbs: [get, list, update, patch, delete, deletecollection]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: rollout-editor}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: rollout-editor}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: dev}
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: lead}
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: owner}
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: "system:kube-controller-manager"}
- {apiGroup: rbac.authorization.k8s.io, kind: Group, name: "system:serviceaccounts"}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: rollout-overrider}
rules:
- {apiGroups: [rollouts.kruise.io], resources: [rollouts], verbs: [override]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: rollout-overrider}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: rollout-overrider}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: lead}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: rollout-owner}
rules:
- {apiGroups: [rollouts.kruise.io], resources: [rollouts], resourceNames: [owned], verbs: [override]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: rollout-owner}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: rollout-owner}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: owner}]`

// fleetChange is a request of a user about a Rollout, as a dry run.
type fleetChange string

const (
	leaveFleet     fleetChange = "leave the fleet"
	moveFleet      fleetChange = "move to another FleetRollout"
	disableRollout fleetChange = "disable the Rollout"
	overrideFleet  fleetChange = "override the fleet"
	deleteRollout  fleetChange = "delete the Rollout"
	deleteRollouts fleetChange = "delete the Rollouts of a selector"
	pauseRollout   fleetChange = "pause the Rollout"
)

// send sends the request and returns the answer of the API server.
func (c fleetChange) send(t *testing.T, client dynamic.ResourceInterface, user, rollout string) error {
	t.Helper()
	dry := []string{metav1.DryRunAll}
	patch := func(body string, subresources ...string) error {
		options := metav1.PatchOptions{DryRun: dry, FieldValidation: metav1.FieldValidationStrict}
		_, err := client.Patch(t.Context(), rollout, types.MergePatchType, []byte(body), options, subresources...)
		return err
	}
	switch c {
	case leaveFleet:
		return patch(`{"spec":{"fleet":null}}`)
	case moveFleet:
		return patch(`{"spec":{"fleet":{"namespace":"releases","name":"cart"}}}`)
	case disableRollout:
		return patch(`{"spec":{"disabled":true}}`)
	case overrideFleet:
		return patch(fmt.Sprintf(`{"status":{"command":{"action":"Override","epoch":3,"actor":%q}}}`, user), "status")
	case deleteRollout:
		return client.Delete(t.Context(), rollout, metav1.DeleteOptions{DryRun: dry})
	case deleteRollouts:
		return client.DeleteCollection(t.Context(), metav1.DeleteOptions{DryRun: dry}, metav1.ListOptions{FieldSelector: "metadata.name=" + rollout})
	case pauseRollout:
		return patch(`{"spec":{"strategy":{"paused":true}}}`)
	}
	return errors.New("there is no such request")
}

// Sentences of the policies.
const (
	refusesToLeave    = "a fleet governs the release under way: to take the Rollout out of it, you need the verb override on rollouts; to stop the release, type sluice abort"
	refusesToDelete   = "a fleet governs the release under way: to delete the Rollout, you need the verb override on rollouts; to stop the release, type sluice abort"
	refusesToOverride = "to let a release go on without the permits of its fleet, you need the verb override on rollouts"
	nothingToOverride = "there is nothing to override: no release that a fleet governs is under way"
)

// checkFleet checks who may interfere with a release that a fleet governs.
func (s server) checkFleet(t *testing.T) {
	s.apply(t, fleetRoles)
	for name, patch := range map[string]string{
		"governed":   `{}`,
		"owned":      `{}`,
		"disabled":   `{"spec":{"disabled":true}}`,
		"at-rest":    `{"status":{"phase":"Healthy"}}`,
		"ungoverned": `{"spec":{"fleet":null}}`,
		"unreleased": `{"status":null}`,
	} {
		object, err := jsonpatch.MergePatch([]byte(governedRollout), []byte(patch))
		if err != nil {
			t.Fatal(err)
		}
		s.create(t, decode(t, object, name))
	}
	all := map[fleetChange]string{
		leaveFleet: refusesToLeave, moveFleet: refusesToLeave, disableRollout: refusesToLeave,
		overrideFleet: refusesToOverride, deleteRollout: refusesToDelete, deleteRollouts: refusesToDelete, pauseRollout: "",
	}
	accepted := maps.Clone(all)
	for change := range accepted {
		accepted[change] = ""
	}
	but := func(base map[fleetChange]string, change fleetChange, refusal string) map[fleetChange]string {
		changed := maps.Clone(base)
		changed[change] = refusal
		return changed
	}
	deletions := map[fleetChange]string{deleteRollout: "", deleteRollouts: ""}
	for name, c := range map[string]struct {
		user    string
		groups  []string
		rollout string
		answers map[fleetChange]string // the refusal of each request, "" if the API server accepts it
	}{
		"a user may pause a governed release only":                        {"dev", nil, "governed", all},
		"a user may disable a governed release that is disabled":          {"dev", nil, "disabled", but(all, disableRollout, "")},
		"a user may do anything with an ungoverned release":               {"dev", nil, "ungoverned", but(accepted, overrideFleet, nothingToOverride)},
		"a user may do anything with a governed Rollout at rest":          {"dev", nil, "at-rest", but(accepted, overrideFleet, nothingToOverride)},
		"a user may do anything with a Rollout without a status":          {"dev", nil, "unreleased", map[fleetChange]string{leaveFleet: "", moveFleet: "", disableRollout: "", deleteRollout: "", pauseRollout: ""}},
		"a user with the verb override may do anything":                   {"lead", nil, "governed", accepted},
		"a user with the verb for one Rollout may do anything with it":    {"owner", nil, "owned", accepted},
		"a user with the verb for one Rollout is a user of all others":    {"owner", nil, "governed", all},
		"a controller of Kubernetes may delete a governed release":        {"system:serviceaccount:kube-system:namespace-controller", []string{"system:serviceaccounts", "system:serviceaccounts:kube-system"}, "governed", deletions},
		"the controller manager may delete a governed release":            {"system:kube-controller-manager", nil, "governed", deletions},
		"a controller of Kubernetes may not take it out of the fleet":     {"system:serviceaccount:kube-system:namespace-controller", []string{"system:serviceaccounts", "system:serviceaccounts:kube-system"}, "governed", map[fleetChange]string{leaveFleet: refusesToLeave}},
		"a service account of another namespace is a user like any other": {"system:serviceaccount:shop:ci", []string{"system:serviceaccounts", "system:serviceaccounts:shop"}, "governed", all},
	} {
		for _, version := range []string{api.V1beta1, api.V1alpha1} {
			client := s.clientOf(t, version, rest.ImpersonationConfig{UserName: c.user, Groups: c.groups})
			for change, refusal := range c.answers {
				t.Run(fmt.Sprintf("%s/%s in %s", name, change, version), func(t *testing.T) {
					s.checkAnswer(t, change.send(t, client, c.user, c.rollout), refusal)
				})
			}
		}
	}
}

// checkAnswer compares the answer of the API server with the refusal of a policy, "" if the server accepts the request.
func (s server) checkAnswer(t *testing.T, err error, refusal string) {
	t.Helper()
	switch {
	case refusal == "" && err != nil:
		t.Error(err)
	case refusal != "" && err == nil:
		t.Errorf("the request was accepted, want an error with %q", refusal)
	case refusal != "" && (!strings.Contains(err.Error(), refusal) || !strings.Contains(err.Error(), "ValidatingAdmissionPolicy")):
		t.Errorf("got the error\n  %v\nwant one with\n  %q", err, refusal)
	}
}

// clientOf acts as a user with the rights that RBAC gives.
func (s server) clientOf(t *testing.T, version string, user rest.ImpersonationConfig) dynamic.ResourceInterface {
	t.Helper()
	resource := api.RolloutResource()
	resource.Version = version
	return s.impersonate(t, user).Resource(resource).Namespace("default")
}

func (s server) impersonate(t *testing.T, user rest.ImpersonationConfig) dynamic.Interface {
	t.Helper()
	config := rest.CopyConfig(s.Config)
	config.Impersonate = user
	config.QPS = -1
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}
