package apiclient

import (
	"errors"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"sluice.dev/sluice/pkg/rollout"
)

// Access is what a call is about, as RBAC sees it.
type Access struct {
	Verb, Group, Resource, Namespace, Name string
	// Route is set for gateway objects: their kinds are granted by users, one by one; all others by the installation.
	Route rollout.Ref
	// Workload: it is the workload itself. Of kinds that are not in groups of the installation, it is granted by users as well.
	Workload bool
	// Child: the executor creates objects of the kind for gateway objects, and deletes them. ReadOnly: the executor only reads them.
	Child, ReadOnly bool
}

// grantedByInstall reports whether the permission comes with the installation.
func (t Access) grantedByInstall() bool {
	return t.Route == (rollout.Ref{}) && (!t.Workload || t.Group == appsv1.GroupName || t.Group == rollout.GroupKruise)
}

// ForbiddenProblem says which permission is missing and how to grant it. Refusals that RBAC has no part in, as of an admission webhook or
// a quota, are told in the words of the API server.
func ForbiddenProblem(on Access, err error) rollout.Problem {
	p := rollout.Problem{Reason: rollout.ReasonForbidden, Unknown: true, Route: on.Route}
	if verb := forbiddenVerb(err); verb == "" {
		p.Message = fmt.Sprintf("The API server refuses to %s %s %s/%s: %s", on.Verb, on.Resource, on.Namespace, on.Name, err)
	} else if !on.grantedByInstall() {
		p.Message = fmt.Sprintf("Sluice may not %s %s in namespace %s. Apply this; the ClusterRole sluice-executor-gateways picks it up by its labels:\n%s",
			verb, on.QualifiedResource(), on.Namespace, on.clusterRoleManifest())
	} else {
		p.Message = fmt.Sprintf("Sluice may not %s %s in namespace %s. Install its roles again: sluice install --print | kubectl apply --server-side -f -. The missing rule is:\n%s",
			verb, on.QualifiedResource(), on.Namespace, on.ruleManifest(verb))
	}
	return p
}

// forbiddenVerb is the verb that RBAC refused, "" when it was not RBAC. Both authorizer and API server are bound to that wording by
// the many tools that show it.
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

// QualifiedResource is the resource as kubectl takes it, such as deployments.apps.
func (t Access) QualifiedResource() string {
	if t.Group == "" {
		return t.Resource
	}
	return t.Resource + "." + t.Group
}

// clusterRoleManifest is what makes a kind one that releases may route with, or that may be released: the watcher and the executor read it, the
// executor writes.
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
