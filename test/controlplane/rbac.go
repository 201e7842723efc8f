package controlplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	applyrbacv1 "k8s.io/client-go/applyconfigurations/rbac/v1"
	"k8s.io/client-go/kubernetes"
)

// rbac waits until changes of RBAC are in force. The API server decides by the state that its own watches have reached.
// The zero value is ready.
type rbac struct {
	mu   sync.Mutex
	last int
}

const rbacMarker = "sluice-test-marker"

// inForce returns when the API server decides by all objects of RBAC that were written before the call. It grants a
// right by an object of each kind and waits until that counts. A watch shows the objects of a kind in the order in
// which they were written.
func (r *rbac) inForce(ctx context.Context, c *Cluster) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	user := fmt.Sprintf("%s-%d", rbacMarker, r.last)
	client, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return err
	}
	rbac, force := client.RbacV1(), metav1.ApplyOptions{FieldManager: rbacMarker, Force: true}
	subject := applyrbacv1.Subject().WithAPIGroup(rbacv1.GroupName).WithKind(rbacv1.UserKind).WithName(user)
	ref := func(kind string) *applyrbacv1.RoleRefApplyConfiguration {
		return applyrbacv1.RoleRef().WithAPIGroup(rbacv1.GroupName).WithKind(kind).WithName(rbacMarker)
	}
	path, get := "/"+user, func() *applyrbacv1.PolicyRuleApplyConfiguration { return applyrbacv1.PolicyRule().WithVerbs("get") }
	_, err1 := rbac.ClusterRoles().Apply(ctx, applyrbacv1.ClusterRole(rbacMarker).WithRules(get().WithNonResourceURLs(path)), force)
	_, err2 := rbac.ClusterRoleBindings().Apply(ctx, applyrbacv1.ClusterRoleBinding(rbacMarker).WithSubjects(subject).WithRoleRef(ref("ClusterRole")), force)
	_, err3 := rbac.Roles(metav1.NamespaceDefault).Apply(ctx, applyrbacv1.Role(rbacMarker, metav1.NamespaceDefault).
		WithRules(get().WithAPIGroups("").WithResources("markers").WithResourceNames(user)), force)
	_, err4 := rbac.RoleBindings(metav1.NamespaceDefault).Apply(ctx, applyrbacv1.RoleBinding(rbacMarker, metav1.NamespaceDefault).WithSubjects(subject).WithRoleRef(ref("Role")), force)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return fmt.Errorf("mark RBAC: %w", err)
	}
	for _, asked := range []authorizationv1.SubjectAccessReviewSpec{
		{User: user, NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: "get"}},
		{User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: metav1.NamespaceDefault, Verb: "get", Resource: "markers", Name: user}},
	} {
		err := wait.PollUntilContextCancel(ctx, 5*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			review, err := client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: asked}, metav1.CreateOptions{})
			return err == nil && review.Status.Allowed, err
		})
		if err != nil {
			return fmt.Errorf("wait for RBAC: %w", err)
		}
	}
	return nil
}

// writesRBAC reports whether a command of kubectl may write objects of RBAC.
func writesRBAC(args []string, stdin string) bool {
	if !slices.ContainsFunc(args, func(arg string) bool {
		return slices.Contains([]string{"create", "apply", "delete", "patch", "replace"}, arg)
	}) {
		return false
	}
	const group = rbacv1.GroupName
	if strings.Contains(stdin, group) {
		return true
	}
	for i, arg := range args {
		switch {
		case strings.Contains(arg, "role"), arg == "-k":
			return true
		case i > 0 && args[i-1] == "-f" && arg != "-":
			text, err := os.ReadFile(arg)
			if err != nil || bytes.Contains(text, []byte(group)) { // the files of a directory may have them
				return true
			}
		}
	}
	return false
}
