package apiclient

import (
	"errors"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

// Access describes a call in the terms of RBAC.
type Access struct {
	Verb, Group, Resource, Namespace, Name string
	// Route is set for gateway objects. Users grant their kinds one by one; the installation grants all other kinds.
	Route rollout.Ref
	// Workload is true for the workload itself. If its kind is in no group of the installation, users grant it as well.
	Workload bool
	// Child is true for a kind whose objects the executor creates for a route and deletes. ReadOnly is true for a kind
	// that the executor only reads.
	Child, ReadOnly bool
}

// grantedByInstall reports whether the installation grants the permission.
func (t Access) grantedByInstall() bool {
	return t.Route == (rollout.Ref{}) && (!t.Workload || t.Group == appsv1.GroupName || t.Group == rollout.GroupKruise)
}

// ForbiddenProblem says which permission is missing and how to grant it. If an admission webhook or a quota refused the
// call, and not RBAC, the problem has the message of the API server.
func ForbiddenProblem(on Access, err error) rollout.Problem {
	p := rollout.Problem{Reason: rollout.ReasonForbidden, Unknown: true, Route: on.Route}
	if verb := forbiddenVerb(err); verb == "" {
		p.Message = fmt.Sprintf("The API server refuses to %s %s %s/%s: %s", on.Verb, on.Resource, on.Namespace, on.Name, err)
	} else if !on.grantedByInstall() {
		p.Message = fmt.Sprintf("Sluice may not %s %s in namespace %s. Apply this; the ClusterRole sluice-executor-gateways picks it up by its labels:\n%s",
			verb, on.QualifiedResource(), on.Namespace, on.clusterRoleManifest())
	} else {
		p.Message = fmt.Sprintf("Sluice may not %s %s in namespace %s. Install its roles again: %s. The missing rule is:\n%s",
			verb, on.QualifiedResource(), on.Namespace, refusedInstallation(err).InstallCommand("rbac"), on.ruleManifest(verb))
	}
	return p
}

// refusedInstallation returns the installation of the service account that RBAC refused, as far as the error says it.
func refusedInstallation(err error) api.Installation {
	in := api.DefaultInstallation()
	_, after, _ := strings.Cut(err.Error(), `User "`)
	user, _, _ := strings.Cut(after, `"`)
	if namespace, _, ok := api.SplitServiceAccountUser(user); ok {
		in.Namespace = namespace
	}
	return in
}

// forbiddenVerb returns the verb that RBAC refused, "" if RBAC did not refuse the call. Many tools show the wording
// that it parses, so the authorizer and the API server must keep it.
func forbiddenVerb(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return ""
	}
	_, after, ok := strings.Cut(status.Status().Message, `" cannot `)
	if !ok {
		return ""
	}
	verb, _, ok := strings.Cut(after, " resource ")
	if !ok || strings.ContainsAny(verb, " \n") {
		return ""
	}
	return verb
}

// QualifiedResource returns the resource as kubectl takes it, such as deployments.apps.
func (t Access) QualifiedResource() string {
	if t.Group == "" {
		return t.Resource
	}
	return t.Resource + "." + t.Group
}

// clusterRoleManifest returns the ClusterRoles that let releases use a kind, as a route or as a workload. They let the
// watcher and the executor read the kind, and let the executor write it.
func (t Access) clusterRoleManifest() string {
	what, write := "gateway", []string{"update"}
	switch {
	case t.Workload:
		what, write = "workload", []string{"patch"}
	case t.Child:
		write = []string{"create", "update", "delete"}
	}
	reads := fmt.Sprintf(`apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: sluice-%s-%s-read
  labels:
    sluice.dev/aggregate-to-watcher: "true"
    sluice.dev/aggregate-to-executor: "true"
rules:
%s`, what, t.QualifiedResource(), t.ruleManifest("get", "list", "watch"))
	if t.ReadOnly {
		return reads
	}
	return reads + fmt.Sprintf(`---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: sluice-%s-%s-write
  labels:
    sluice.dev/aggregate-to-executor: "true"
rules:
%s`, what, t.QualifiedResource(), t.ruleManifest(write...))
}

func (t Access) ruleManifest(verbs ...string) string {
	return fmt.Sprintf("- apiGroups: [%q]\n  resources: [%q]\n  verbs: [\"%s\"]\n", t.Group, t.Resource, strings.Join(verbs, `", "`))
}

// IsFor reports whether the call is about a resource of a group.
func (t Access) IsFor(group, resource string) bool { return t.Group == group && t.Resource == resource }
