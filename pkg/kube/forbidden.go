package kube

import (
	"errors"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"sluice.dev/sluice/pkg/rollout"
)

// target is what a call is about, as RBAC sees it.
type target struct {
	verb, group, resource, namespace, name string
	// route is set for gateway objects: their kinds are granted by users, one by one; all others by the installation.
	route rollout.Ref
	// workload: it is the workload itself. Of kinds that are not in groups of the installation, it is granted by users as well.
	workload bool
	// made: the executor makes objects of the kind beside gateway objects, and deletes them. read: the executor only reads them.
	made, read bool
}

// granted reports whether the permission comes with the installation.
func (t target) granted() bool {
	return t.route == (rollout.Ref{}) && (!t.workload || t.group == appsv1.GroupName || t.group == groupKruise)
}

// forbidden says which permission is missing and how to grant it. Refusals that RBAC has no part in, as of an admission webhook or
// a quota, are told in the words of the API server.
func forbidden(on target, err error) rollout.Problem {
	p := rollout.Problem{Reason: rollout.HoldForbidden, Unknown: true, Route: on.route}
	if verb := refusedVerb(err); verb == "" {
		p.Message = fmt.Sprintf("The API server refuses to %s %s %s/%s: %s", on.verb, on.resource, on.namespace, on.name, err)
	} else if !on.granted() {
		p.Message = fmt.Sprintf("Sluice may not %s %s in namespace %s. Apply this; the ClusterRole sluice-executor-gateways picks it up by its labels:\n%s",
			verb, on.qualified(), on.namespace, on.role())
	} else {
		p.Message = fmt.Sprintf("Sluice may not %s %s in namespace %s. Install its roles again: sluice install --print | kubectl apply --server-side -f -. The missing rule is:\n%s",
			verb, on.qualified(), on.namespace, on.rule(verb))
	}
	return p
}

// refusedVerb is the verb that RBAC refused, "" when it was not RBAC. Both authorizer and API server are bound to that wording by
// the many tools that show it.
func refusedVerb(err error) string {
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

func (t target) qualified() string {
	if t.group == "" {
		return t.resource
	}
	return t.resource + "." + t.group
}

// role is what makes a kind one that releases may route with, or that may be released: the watcher and the executor read it, the
// executor writes.
func (t target) role() string {
	what, write := "gateway", []string{"update"}
	switch {
	case t.workload:
		what, write = "workload", []string{"patch"}
	case t.made:
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
%s`, what, t.qualified(), t.rule("get", "list", "watch"))
	if t.read {
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
%s`, what, t.qualified(), t.rule(write...))
}

func (t target) rule(verbs ...string) string {
	return fmt.Sprintf("- apiGroups: [%q]\n  resources: [%q]\n  verbs: [\"%s\"]\n", t.group, t.resource, strings.Join(verbs, `", "`))
}
