package apiclient

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"sluice.dev/sluice/pkg/api"
	"sluice.dev/sluice/pkg/rollout"
)

func TestErrorsOfWritesSayWhatToDoNext(t *testing.T) {
	t.Parallel()
	type verdict struct{ conflict, gone, problem bool }
	deployments := schema.GroupResource{Group: "apps", Resource: "deployments"}
	unserved := apierrors.NewGenericServerResponse(404, "get", deployments, "web", "404 page not found", 0, true)
	cases := map[string]struct {
		err  error
		want verdict
	}{
		"a changed object":                {apierrors.NewConflict(deployments, "web", errors.New("changed")), verdict{conflict: true}},
		"an object that has gone":         {apierrors.NewNotFound(deployments, "web"), verdict{conflict: true}},
		"an object that is there":         {apierrors.NewAlreadyExists(deployments, "web"), verdict{conflict: true}},
		"a missing permission":            {apierrors.NewForbidden(deployments, "web", errors.New("no")), verdict{problem: true}},
		"what the API server cannot take": {apierrors.NewInvalid(schema.GroupKind{Kind: "Deployment"}, "web", nil), verdict{problem: true}},
		"a server that is busy":           {apierrors.NewTooManyRequests("later", 7), verdict{}},
		"a server that is broken":         {apierrors.NewInternalError(errors.New("etcd")), verdict{}},
		"a connection that breaks":        {errors.New("connection reset"), verdict{}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := fmt.Errorf("run: %w", ActionError(rollout.AdoptWorkload{}, Access{Verb: "patch", Resource: "deployments"}, c.err))
			_, problem := ProblemOf(err)
			if got := (verdict{IsConflict(err), IsGone(err), problem}); got != c.want {
				t.Errorf("the verdict is %+v, want %+v", got, c.want)
			}
			if !errors.Is(err, c.err) {
				t.Errorf("the cause is lost in %v", err)
			}
		})
	}
	r := &api.Rollout{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	if err := RolloutError("read", r, apierrors.NewNotFound(deployments, "web")); !IsGone(err) || !strings.Contains(err.Error(), "shop/web") {
		t.Errorf("a Rollout that has gone is told as %v", err)
	}
	if err := RolloutError("read", r, unserved); IsGone(err) {
		t.Error("without the CustomResourceDefinition the Rollout is told to be gone")
	}
	if got := RetryAfter(fmt.Errorf("run: %w", apierrors.NewTooManyRequests("later", 7))); got != 7*time.Second {
		t.Errorf("the wait that the server asks for is %s", got)
	}
	if got := RetryAfter(errors.New("other")); got != 0 {
		t.Errorf("the wait that nobody asks for is %s", got)
	}
}
