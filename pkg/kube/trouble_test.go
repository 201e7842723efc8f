package kube

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestOnlyWhatTheAPIServerItselfFailsAtForAWhileLasts(t *testing.T) {
	t.Parallel()
	rules := schema.GroupVersionResource{Group: "networking.istio.io", Version: "v1", Resource: "destinationrules"}
	failed := apierrors.NewInternalError(errors.New("conversion webhook failed"))
	type call struct {
		after time.Duration
		err   error
	}
	for name, c := range map[string]struct {
		calls []call
		lasts bool
	}{
		"one failure":                        {[]call{{0, failed}}, false},
		"failures for less than the time":    {[]call{{0, failed}, {errorLasts - 1, failed}}, false},
		"failures for the time":              {[]call{{0, failed}, {errorLasts, failed}}, true},
		"an answer between":                  {[]call{{0, failed}, {errorLasts / 2, nil}, {errorLasts, failed}}, false},
		"a refusal between":                  {[]call{{0, failed}, {1, apierrors.NewForbidden(rules.GroupResource(), "", nil)}, {errorLasts, failed}}, false},
		"a failure of long ago":              {[]call{{0, failed}, {2 * errorForgotten, failed}}, false},
		"an API server that does not answer": {[]call{{0, context.DeadlineExceeded}, {errorLasts, context.DeadlineExceeded}}, false},
		"an answer at the end":               {[]call{{0, failed}, {errorLasts, nil}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var of serverErrors
			began, err := time.Now(), error(nil)
			for _, call := range c.calls {
				if err = of.recordResult(rules, call.err, began.Add(call.after)); !errors.Is(err, call.err) {
					t.Errorf("%v became %v", call.err, err)
				}
			}
			if isLasting(err) != c.lasts {
				t.Errorf("after all calls: %v", err)
			}
			if other := of.recordResult(schema.GroupVersionResource{Resource: "services"}, failed, began.Add(time.Hour)); isLasting(other) {
				t.Error("another resource is taken for it")
			}
		})
	}
}
