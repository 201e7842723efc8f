package preflight

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/pkg/api"
)

// Grant is what a service account needs: the rules hold in Namespace, or everywhere when that is empty.
type Grant struct {
	ServiceAccount, Namespace string
	Rules                     []rbacv1.PolicyRule
}

// reviewsAtOnce bounds the questions on their way; there are about a hundred.
const reviewsAtOnce = 16

// CheckRBAC asks the API server about each single right of each grant, and reports one finding per service account.
func (c *Cluster) CheckRBAC(ctx context.Context, grants []Grant) []Finding {
	var accounts []string
	for _, g := range grants {
		if !slices.Contains(accounts, g.ServiceAccount) {
			accounts = append(accounts, g.ServiceAccount)
		}
	}
	var findings []Finding
	for _, account := range accounts {
		findings = append(findings, c.checkAccount(ctx, account, grants))
	}
	return findings
}

func (c *Cluster) checkAccount(ctx context.Context, account string, grants []Grant) Finding {
	f := Finding{Check: "rbac", Level: LevelOK, Message: fmt.Sprintf("Service account %s has all the rights that it needs.", account)}
	rights := rightsOf(account, grants)
	denied, err := c.deniedRights(ctx, account, rights)
	switch {
	case apierrors.IsForbidden(err):
		f = c.unreadFinding(f.Check, "The rights of service account "+account, err)
		f.Remedy = "Run sluice check as a user who may create subjectaccessreviews."
	case err != nil:
		f = c.unreadFinding(f.Check, "The rights of service account "+account, err)
	case len(denied) > 0:
		f.Level = LevelError
		f.Message = fmt.Sprintf("Service account %s lacks %d of %d rights: %s.", account, len(denied), len(rights), joinShortened(denied, shown))
		f.Remedy = "Install the roles: " + c.installRBAC()
	}
	return f
}

// shown is how many missing rights a finding lists.
const shown = 4

// joinShortened joins a list and names at most so many items of it.
func joinShortened(list []string, most int) string {
	if len(list) > most {
		return strings.Join(list[:most], ", ") + fmt.Sprintf(" and %d more", len(list)-most)
	}
	return strings.Join(list, ", ")
}

func (c *Cluster) deniedRights(ctx context.Context, account string, rights []authorizationv1.ResourceAttributes) ([]string, error) {
	allowed := make([]bool, len(rights))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(reviewsAtOnce)
	for i := range rights {
		group.Go(func() (err error) {
			allowed[i], err = c.isAllowed(ctx, account, rights[i])
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var list []string
	for i, ok := range allowed {
		if text := describeRight(rights[i]); !ok && !slices.Contains(list, text) {
			list = append(list, text)
		}
	}
	return list, nil
}

func (c *Cluster) isAllowed(ctx context.Context, account string, right authorizationv1.ResourceAttributes) (bool, error) {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:               c.installation.User(account),
		Groups:             []string{"system:serviceaccounts", "system:serviceaccounts:" + c.installation.Namespace, "system:authenticated"},
		ResourceAttributes: &right,
	}}
	answer, err := c.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return answer.Status.Allowed, nil
}

// rightsOf spreads rules out into single rights. Rules about URLs are left out: Sluice has none.
func rightsOf(account string, grants []Grant) []authorizationv1.ResourceAttributes {
	var list []authorizationv1.ResourceAttributes
	for _, g := range grants {
		if g.ServiceAccount != account {
			continue
		}
		for _, rule := range g.Rules {
			list = append(list, expandRule(g.Namespace, rule)...)
		}
	}
	return list
}

func expandRule(namespace string, rule rbacv1.PolicyRule) []authorizationv1.ResourceAttributes {
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	var list []authorizationv1.ResourceAttributes
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			resource, subresource, _ := strings.Cut(resource, "/")
			for _, verb := range rule.Verbs {
				for _, name := range names {
					list = append(list, authorizationv1.ResourceAttributes{
						Namespace: namespace, Verb: verb, Group: group, Resource: resource, Subresource: subresource, Name: name,
					})
				}
			}
		}
	}
	return list
}

func describeRight(r authorizationv1.ResourceAttributes) string {
	text := r.Verb + " " + r.Resource
	if r.Group != "" {
		text += "." + r.Group
	}
	if r.Subresource != "" {
		text += "/" + r.Subresource
	}
	if r.Name != "" {
		text += " " + r.Name
	}
	if r.Namespace != "" {
		text += " in " + r.Namespace
	}
	return text
}

// CheckImpersonation looks whether the user of this Cluster may act as each of the service accounts. The error says how to
// obtain that right.
func (c *Cluster) CheckImpersonation(ctx context.Context, accounts ...string) error {
	for _, account := range accounts {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: c.installation.Namespace, Verb: "impersonate", Resource: "serviceaccounts", Name: account,
			},
		}}
		answer, err := c.client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("ask whether this user may impersonate service account %s: %w", account, err)
		}
		if !answer.Status.Allowed {
			return fmt.Errorf(`this user may not impersonate service account %s/%s, under whose roles this part runs. Let an administrator run:
  kubectl create role sluice-impersonate -n %[1]s --verb=impersonate --resource=serviceaccounts
  kubectl create rolebinding sluice-impersonate -n %[1]s --role=sluice-impersonate --user=YOU
In a cluster without the admission policies, which know only %[3]s, --impersonate=false runs everything as yourself`,
				c.installation.Namespace, account, c.installation.ExecutorUser())
		}
	}
	return nil
}

// CheckRoles looks whether the user of this Cluster, an executor, has been granted anything at all. The error says how to install
// the roles.
func (c *Cluster) CheckRoles(ctx context.Context) error {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "update", Group: api.Group, Resource: "rollouts", Subresource: "status"},
	}}
	answer, err := c.client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("ask for the rights of the executor: %w", err)
	}
	if !answer.Status.Allowed {
		return fmt.Errorf("the roles of Sluice are not installed: %s may not write the status of Rollouts. Install them: %s", c.installation.ExecutorUser(), c.installRBAC())
	}
	return nil
}
