package controlplane

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

// rbac tells when what was written of RBAC is in force: the API server decides by what its own watches have shown to it. The zero value is ready.
type rbac struct {
	mu   sync.Mutex
	last int
}

const rbacMarker = "sluice-test-marker"

// inForce returns when the API server decides by all objects of RBAC that were written before the call. It grants something by an object of each
// kind and asks until that counts, because a watch shows the objects of a kind in the order in which they were written.
func (r *rbac) inForce(ctx context.Context, c *Cluster) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	user := fmt.Sprintf("%s-%d", rbacMarker, r.last)
	client, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return err
	}
	api := client.RbacV1().RESTClient()
	meta := func(kind, namespace string) (metav1.TypeMeta, metav1.ObjectMeta) {
		return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}, metav1.ObjectMeta{Name: rbacMarker, Namespace: namespace}
	}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}
	ref := func(kind string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: rbacMarker}
	}
	anywhere, named := []string{"/" + user}, []string{user}
	clusterRole, clusterRoleBinding, role, roleBinding := rbacv1.ClusterRole{Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: anywhere}}},
		rbacv1.ClusterRoleBinding{Subjects: subjects, RoleRef: ref("ClusterRole")},
		rbacv1.Role{Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"markers"}, ResourceNames: named}}},
		rbacv1.RoleBinding{Subjects: subjects, RoleRef: ref("Role")}
	clusterRole.TypeMeta, clusterRole.ObjectMeta = meta("ClusterRole", "")
	clusterRoleBinding.TypeMeta, clusterRoleBinding.ObjectMeta = meta("ClusterRoleBinding", "")
	role.TypeMeta, role.ObjectMeta = meta("Role", metav1.NamespaceDefault)
	roleBinding.TypeMeta, roleBinding.ObjectMeta = meta("RoleBinding", metav1.NamespaceDefault)
	for _, write := range []struct {
		resource, namespace string
		object              any
	}{
		{"clusterroles", "", clusterRole}, {"clusterrolebindings", "", clusterRoleBinding},
		{"roles", metav1.NamespaceDefault, role}, {"rolebindings", metav1.NamespaceDefault, roleBinding},
	} {
		body, err := json.Marshal(write.object)
		if err != nil {
			return err
		}
		err = api.Patch(types.ApplyPatchType).NamespaceIfScoped(write.namespace, write.namespace != "").Resource(write.resource).Name(rbacMarker).
			Param("fieldManager", rbacMarker).Param("force", "true").Body(body).Do(ctx).Error()
		if err != nil {
			return fmt.Errorf("mark RBAC: %w", err)
		}
	}
	for _, asked := range []authorizationv1.SubjectAccessReviewSpec{
		{User: user, NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: anywhere[0], Verb: "get"}},
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
			if err != nil || bytes.Contains(text, []byte(group)) { // a directory may have them
				return true
			}
		}
	}
	return false
}
