package apiclient

import (
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestARefusalIsToldByWhoRefused(t *testing.T) {
	t.Parallel()
	refused := func(why string) error {
		return apierrors.NewForbidden(schema.GroupResource{Group: "apps", Resource: "deployments"}, "web", errors.New(why))
	}
	cases := map[string]struct {
		err           error
		says, saysNot string
	}{
		"RBAC names the rule": {
			refused(`User "sluice" cannot patch resource "deployments" in API group "apps" in the namespace "shop"`),
			"- apiGroups: [\"apps\"]\n  resources: [\"deployments\"]\n  verbs: [\"patch\"]\n", "quota",
		},
		"an account of another namespace": {
			refused(`User "system:serviceaccount:progressive:sluice-executor" cannot patch resource "deployments" in API group "apps" in the namespace "shop"`),
			"sluice install --print --namespace progressive --part rbac | kubectl apply --server-side -f -", "quota",
		},
		"a quota speaks for itself":   {refused("exceeded quota: small, requested: pods=1"), "exceeded quota: small", "apiGroups"},
		"a webhook speaks for itself": {refused("admission webhook denied the request: you cannot do that"), "you cannot do that", "apiGroups"},
		"what is no status":           {errors.New("odd"), "odd", "apiGroups"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ForbiddenProblem(Access{Verb: "patch", Group: "apps", Resource: "deployments", Namespace: "shop", Name: "web"}, c.err).Message
			if !strings.Contains(got, c.says) || strings.Contains(got, c.saysNot) {
				t.Errorf("the message is %q", got)
			}
		})
	}
}
